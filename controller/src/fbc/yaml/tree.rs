//! Makes a tree of the parser's events.

use std::{borrow::Cow, collections::HashMap};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::scalar::Tag;
use crate::fbc::{
    Problem,
    value::{MAX_DEPTH, MAX_VALUES},
};

/// A document: its first node is its root.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    pub(super) nodes: Vec<Node<'a>>,
}

/// A part of a document.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) line: u64,
    pub(super) kind: Kind<'a>,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Kind<'a> {
    Scalar(Tag, Cow<'a, str>),
    Sequence(Vec<usize>),
    /// Keys and values in turn.
    Mapping(Vec<usize>),
    Alias(usize),
}

/// Reads the first document of a text, and tells the line of what follows it.
pub(super) fn read(text: &str) -> Result<(Tree<'_>, Option<u64>), Problem> {
    let options = granit_parser::options! {
        emit_comments: false,
        // As libyaml has it, of which go-yaml was made.
        bom_inside_document_as_content: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    let mut ended = false;
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((Event::StreamEnd, _)) => return Ok((builder.tree, None)),
            Ok((_, span)) if ended => return Ok((builder.tree, Some(line(span)))),
            Err(error) if ended => return Ok((builder.tree, Some(lines(error.marker().line())))),
            Ok((Event::DocumentEnd, _)) => ended = true,
            Ok((event, span)) => builder.event(event, span)?,
            Err(error) => return Err(problem(&error)),
        }
    }
    Ok((builder.tree, None))
}

fn problem(error: &ScanError) -> Problem {
    Problem {
        line: lines(error.marker().line()).saturating_sub(1),
        what: told(&error.info()),
    }
}

/// What the parser says, which may hold text of the catalog.
fn told(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut told = String::new();
    for char in text.chars().take(LONGEST) {
        match char {
            ' '..='~' => told.push(char),
            _ => told.extend(char.escape_default()),
        }
    }
    told
}

/// The line of an event, counted from zero.
fn line(span: Span) -> u64 {
    lines(span.start.line()).saturating_sub(1)
}

fn lines(lines: usize) -> u64 {
    u64::try_from(lines).unwrap_or(u64::MAX)
}

#[derive(Default)]
struct Builder<'a> {
    tree: Tree<'a>,
    /// The collections that are open.
    open: Vec<usize>,
    /// Nodes by the numbers of their anchors.
    anchors: HashMap<usize, usize>,
}

impl<'a> Builder<'a> {
    fn event(&mut self, event: Event<'a>, span: Span) -> Result<(), Problem> {
        let line = line(span);
        let fail = |what: &str| {
            Err(Problem {
                line,
                what: what.to_owned(),
            })
        };
        let (kind, anchor, opens) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag_of(style, tag.as_deref());
                (Kind::Scalar(tag, text), anchor, false)
            }
            Event::SequenceStart(_, anchor, _) => (Kind::Sequence(Vec::new()), anchor, true),
            Event::MappingStart(_, anchor, _) => (Kind::Mapping(Vec::new()), anchor, true),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => (Kind::Alias(*node), 0, false),
                None => return fail("an alias names an anchor that there is not"),
            },
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                return Ok(());
            }
            _ => return Ok(()),
        };
        let node = self.tree.nodes.len();
        if node == MAX_VALUES {
            return fail("the document has more than a million values");
        }
        self.tree.nodes.push(Node { line, kind });
        if anchor > 0 {
            self.anchors.insert(anchor, node);
        }
        if let Some(parent) = self.open.last()
            && let Kind::Sequence(children) | Kind::Mapping(children) = &mut self.tree.nodes[*parent].kind
        {
            children.push(node);
        }
        if opens {
            self.open.push(node);
        }
        Ok(())
    }
}

fn tag_of(style: ScalarStyle, tag: Option<&granit_parser::Tag>) -> Tag {
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain {
            Tag::Plain
        } else {
            Tag::Str
        };
    };
    let (handle, suffix) = tag.parts();
    let whole = format!("{handle}{suffix}");
    match whole.strip_prefix("tag:yaml.org,2002:") {
        Some("str") => Tag::Str,
        Some("bool") => Tag::Bool,
        Some("int") => Tag::Int,
        Some("float") => Tag::Float,
        Some("null") => Tag::Null,
        Some("timestamp") => Tag::Timestamp,
        Some("binary") => Tag::Binary,
        Some("merge") => Tag::Merge,
        _ => Tag::Other,
    }
}
