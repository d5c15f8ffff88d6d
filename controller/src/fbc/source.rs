//! A file that is read document by document.

use std::io::{self, Read};

/// How long a document may be.
pub(super) const MAX_DOCUMENT: usize = 32 << 20;
const READ: u64 = 64 << 10;

/// What is read of a file and not yet used: a document at most, and a little.
#[derive(Debug)]
pub(super) struct Source<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where in the buffer what is unused begins.
    start: usize,
    /// The line where it begins.
    line: u64,
}

/// What comes next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Nothing.
    End,
    /// A document of that many bytes.
    Document(usize),
    /// None that could be told from others.
    Broken(&'static str),
}

impl<R: Read> Source<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            line: 1,
        }
    }

    /// What is read and unused.
    pub(super) fn unused(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// The line where that begins.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The next bytes are used.
    pub(super) fn consume(&mut self, length: usize) {
        self.line += newlines(&self.unused()[..length]);
        self.start += length;
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let read = (&mut self.reader).take(READ).read_to_end(&mut self.buffer)?;
        Ok(read > 0)
    }

    /// The byte at a place after the beginning, if there is one.
    fn byte(&mut self, at: usize) -> io::Result<Option<u8>> {
        while self.unused().len() <= at {
            if !self.fill()? {
                return Ok(None);
            }
        }
        Ok(self.unused().get(at).copied())
    }

    /// Whether the first thing is a brace, so that this may be a stream of JSON.
    pub(super) fn may_be_json(&mut self) -> io::Result<bool> {
        let mut at = 0;
        while at < MAX_DOCUMENT {
            match self.byte(at)? {
                Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C) => at += 1,
                other => return Ok(other == Some(b'{')),
            }
        }
        Ok(false)
    }

    /// Finds the end of the next value of JSON by its brackets. Whether it is one shows when it is parsed.
    pub(super) fn next_json(&mut self) -> io::Result<Next> {
        let mut at = 0;
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte(at)? {
            // White space can be without end too.
            if at == MAX_DOCUMENT {
                self.consume(at);
                at = 0;
            }
            at += 1;
        }
        match self.byte(at)? {
            None => return Ok(Next::End),
            Some(b'{') => {}
            Some(b'n') if self.byte(at + 3)?.is_some() && self.unused()[at..].starts_with(b"null") => {
                return Ok(Next::Document(at + 4));
            }
            Some(_) => return Ok(Next::Broken("an object of JSON was expected")),
        }
        let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
        while let Some(byte) = self.byte(at)? {
            at += 1;
            if at > MAX_DOCUMENT {
                return Ok(Next::Broken(TOO_LONG));
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 && !quoted {
                return Ok(Next::Document(at));
            }
        }
        Ok(Next::Broken("the file ends within a document"))
    }

    /// After JSON that was followed by something else: white space up to the end of the line goes.
    pub(super) fn skip_rest_of_line(&mut self) -> io::Result<()> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C) = self.byte(0)? {
            let end = self.unused()[0] == b'\n';
            self.consume(1);
            if end {
                break;
            }
        }
        Ok(())
    }

    /// Finds the next document of YAML: all up to a line that separates it from another. A separator in front
    /// belongs to the document, since what is no document would be one without it.
    pub(super) fn next_yaml(&mut self) -> io::Result<Next> {
        let mut at = 0;
        loop {
            let line = at;
            loop {
                match self.byte(at)? {
                    Some(b'\n') => {
                        at += 1;
                        break;
                    }
                    Some(_) => at += 1,
                    None => break,
                }
                if at > MAX_DOCUMENT {
                    return Ok(Next::Broken(TOO_LONG));
                }
            }
            if line == at {
                return Ok(if at == 0 { Next::End } else { Next::Document(at) });
            }
            if let Some(rest) = self.unused()[line..at].strip_prefix(b"---") {
                if line > 0 {
                    return Ok(Next::Document(line));
                }
                if !matches!(rest.trim_ascii().first(), None | Some(b'#')) {
                    return Ok(Next::Broken("text follows the separator `---` on its line"));
                }
            }
        }
    }
}

const TOO_LONG: &str = "the document has more than 32 MiB";

/// How many lines end within some text.
pub(super) fn newlines(text: &[u8]) -> u64 {
    text.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}
