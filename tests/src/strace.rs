//! strace around the puller: which system calls it makes, in which order.

use std::{collections::HashMap, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use tempfile::TempDir;

use crate::{puller::built_binary, wait::eventually};

/// Bytes that are recorded of what is written: enough for the messages of small images.
const RECORDED: &str = "4096";

/// A program that is the puller under strace, and what it has recorded.
#[derive(Debug)]
pub struct Strace {
    directory: TempDir,
}

/// A moment in the life of a system call.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The call's name.
    pub call: String,
    /// Its arguments, each file handle with the path that it stands for, as strace prints them.
    pub arguments: String,
    /// `None`: it begins.
    pub end: Option<End>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The number of the moment in which it began.
    pub begun: usize,
    /// Whether it did what it was to do.
    pub succeeded: bool,
}

impl Strace {
    /// Records these system calls, such as `fsync,renameat`.
    ///
    /// # Panics
    /// The puller is not built.
    pub fn of_puller(calls: &str) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let binary = built_binary().unwrap_or_else(|error| panic!("{error:#}"));
        let strace = Self { directory };
        // -D: the puller is our child, and strace goes when it has gone.
        let script = format!(
            "#!/bin/sh\nexec strace -D -f -y -s {RECORDED} -o '{}' -e trace={calls} '{}' \"$@\"\n",
            strace.output().display(),
            binary.display()
        );
        fs::write(strace.program(), script).expect("a writable directory");
        fs::set_permissions(strace.program(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        strace
    }

    /// What to run in place of the puller.
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("traced-puller")
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("trace")
    }

    /// Waits until a puller that has ended is recorded to its end.
    ///
    /// # Panics
    /// It is not within a minute, as where strace is missing (`make tools` installs it) or may not trace.
    pub async fn moments(&self, puller: u32) -> Vec<Moment> {
        let is_end = |line: &str| {
            line.split_once(' ').is_some_and(|(thread, what)| {
                thread == puller.to_string() && what.trim_start().starts_with("+++ ")
            })
        };
        let text = eventually("the end of strace's record", || {
            // What was written need not be text.
            let text = String::from_utf8_lossy(&fs::read(self.output()).ok()?).into_owned();
            text.lines().any(is_end).then_some(text)
        })
        .await;
        parse(&text)
    }
}

fn parse(text: &str) -> Vec<Moment> {
    let mut moments: Vec<Moment> = Vec::new();
    // By thread: when the call began that it is in.
    let mut unfinished: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {
        let Some((thread, line)) = line.split_once(' ') else {
            continue;
        };
        let line = line.trim_start();
        let begun = if line.starts_with("<... ") {
            unfinished.remove(thread)
        } else if let Some((call, arguments)) = line.split_once('(') {
            moments.push(Moment {
                call: call.to_owned(),
                arguments: arguments.to_owned(),
                end: None,
            });
            Some(moments.len() - 1)
        } else {
            // A signal, or the end of a thread.
            None
        };
        let Some(begun) = begun else { continue };
        if line.ends_with("<unfinished ...>") {
            unfinished.insert(thread, begun);
            continue;
        }
        let result = line.rsplit_once(" = ").map_or("?", |(_, result)| result);
        let end = End {
            begun,
            succeeded: !result.starts_with(['-', '?']),
        };
        moments.push(Moment {
            end: Some(end),
            ..moments[begun].clone()
        });
    }
    moments
}

impl Moment {
    /// The path of the first file handle.
    pub fn handle(&self) -> Option<PathBuf> {
        let (_, rest) = self.arguments.split_once('<')?;
        Some(PathBuf::from(rest.split_once('>')?.0))
    }

    /// Whether the call is about a socket.
    pub fn is_of_socket(&self) -> bool {
        // A path's own comparison is by components, and this is none.
        self.handle()
            .is_some_and(|path| path.to_string_lossy().starts_with("socket:"))
    }

    /// The names that the call is about, each below the directory that is given with it.
    pub fn names(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        let mut directory = PathBuf::new();
        let mut rest = self.arguments.as_str();
        while let Some(at) = rest.find(['<', '"']) {
            let is_handle = rest[at..].starts_with('<');
            let end = if is_handle { '>' } else { '"' };
            let Some((text, after)) = rest[at + 1..].split_once(end) else {
                break;
            };
            rest = after;
            if is_handle {
                directory = PathBuf::from(text);
            } else {
                names.push(std::mem::take(&mut directory).join(text));
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_threads_are_told_apart() {
        let moments = parse(concat!(
            "7 fsync(3</v/a> <unfinished ...>\n",
            "8 write(4</v/b>, \"x\\0<\", 3)     = 3\n",
            "7 <... fsync resumed>)             = 0\n",
            "8 +++ exited with 0 +++\n",
            "7 mkdir(\"/v\", 0777) = -1 EEXIST (File exists)\n",
        ));
        let shown: Vec<_> = moments
            .iter()
            .map(|moment| {
                let end = moment.end.map(|end| (end.begun, end.succeeded));
                (moment.call.as_str(), moment.handle(), end)
            })
            .collect();
        let path = |path| Some(PathBuf::from(path));
        assert_eq!(
            shown,
            [
                ("fsync", path("/v/a"), None),
                ("write", path("/v/b"), None),
                ("write", path("/v/b"), Some((1, true))),
                ("fsync", path("/v/a"), Some((0, true))),
                ("mkdir", None, None),
                ("mkdir", None, Some((4, false))),
            ]
        );
    }

    #[test]
    fn names_are_below_their_directories() {
        let names = |arguments: &str| {
            let moment = Moment {
                call: String::new(),
                arguments: arguments.to_owned(),
                end: None,
            };
            let names = moment.names().into_iter();
            names.map(|name| name.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(r#"3</v/a>, "b", 4</v>, "c") = 0"#), ["/v/a/b", "/v/c"]);
        assert_eq!(names(r#""to", 4</v>, "c") = 0"#), ["to", "/v/c"]);
        assert_eq!(names(r#"3</v>, "b", O_RDWR|O_CREAT, 0600) = 5</v/b>"#), ["/v/b"]);
        assert_eq!(names(r#""/v/b", 0777) = 0"#), ["/v/b"]);
    }
}
