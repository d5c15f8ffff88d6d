//! The settings file: flat TOML, read with the line of every value.

use std::{collections::BTreeMap, path::Path};

use toml::Spanned;

use super::{
    args::ServeArgs,
    value::{Origin, Typed, problem, shown},
};

/// The values of a settings file, by name.
///
/// # Errors
/// All that is wrong with it, one text each, with file and line.
pub(crate) fn parse(path: &Path, text: &str) -> Result<BTreeMap<String, Vec<Typed>>, Vec<String>> {
    let at = |span: std::ops::Range<usize>| Origin::File {
        path: path.to_owned(),
        line: 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count(),
    };
    let table: BTreeMap<Spanned<String>, Spanned<toml::Value>> = toml::from_str(text).map_err(|error| {
        let line = at(error.span().unwrap_or_default());
        match line {
            Origin::File { line, .. } => vec![format!("{}:{line}: {}", path.display(), error.message())],
            Origin::Flag | Origin::Variable => vec![error.to_string()],
        }
    })?;

    let mut values = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, value) in table {
        let name = key.get_ref().clone();
        let origin = at(value.span());
        if name == "config" {
            problems.push(problem(&name, &origin, "a settings file can't name another one"));
        } else if !ServeArgs::names().any(|known| known == name) {
            let origin = at(key.span());
            let what = "there is no such setting; `puller serve --help` lists them, and here they stand without dashes in front";
            problems.push(problem(shown(&name).trim_matches('"'), &origin, what));
        } else {
            match texts(value.into_inner()) {
                // An empty list is a value: it must hide what stands below, as `none` does.
                Some(texts) if texts.is_empty() => {
                    values.insert(
                        name,
                        vec![Typed {
                            text: "none".into(),
                            origin,
                        }],
                    );
                }
                Some(texts) => {
                    let typed = texts.into_iter().map(|text| Typed {
                        text,
                        origin: origin.clone(),
                    });
                    values.insert(name, typed.collect());
                }
                None => problems.push(problem(
                    &name,
                    &origin,
                    "it is none of text, number, true, false, or a list",
                )),
            }
        }
    }
    if problems.is_empty() {
        Ok(values)
    } else {
        Err(problems)
    }
}

/// A value as if it had been typed as a flag.
fn texts(value: toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::Array(items) => items.into_iter().map(text).collect(),
        other => text(other).map(|text| vec![text]),
    }
}

fn text(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<BTreeMap<String, Vec<Typed>>, String> {
        parse(Path::new("puller.toml"), text).map_err(|problems| problems.join("\n"))
    }

    #[test]
    fn values_have_their_lines() {
        let values =
            read("# settings\nmax-pulls = 8\n\nplain-http = [\n  \"a.b\",\n  \"c.d\",\n]\n").unwrap();
        let line = |line| Origin::File {
            path: "puller.toml".into(),
            line,
        };
        assert_eq!(
            values["max-pulls"],
            [Typed {
                text: "8".into(),
                origin: line(2)
            }]
        );
        let texts: Vec<_> = values["plain-http"]
            .iter()
            .map(|typed| typed.text.as_str())
            .collect();
        assert_eq!(texts, ["a.b", "c.d"]);
        assert_eq!(values["plain-http"][0].origin, line(4));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, error) in [
            (
                "\nmax_pulls = 8",
                "puller.toml:2: max_pulls: there is no such setting",
            ),
            (
                "max-pulls = 1979-05-27",
                "puller.toml:1: max-pulls: it is none of text",
            ),
            (
                "\n\nconfig = \"other\"",
                "puller.toml:3: config: a settings file can't name another one",
            ),
            ("max-pulls = 1\nmax-pulls = 2", "puller.toml:2: duplicate key"),
            ("\nmax-pulls = ", "puller.toml:2: "),
            (
                "[serve]\nmax-pulls = 1",
                "puller.toml:1: serve: there is no such setting",
            ),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(error), "{text:?} gave {found}");
        }
        assert_eq!(read("a = 1\nb = 2").unwrap_err().lines().count(), 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z=\\[\\]\"'\n #.0-9-]{0,60}") {
            let _ = read(&text);
        }
    }
}
