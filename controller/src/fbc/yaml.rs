//! Reads YAML as sigs.k8s.io/yaml does, which is YAML 1.1. The parser tells events, from which a tree is made
//! here; what scalars stand for is decided here too.
//!
//! Where parser and go-yaml differ: to YAML 1.1 the characters U+0085, U+2028 and U+2029 end a line, to the
//! parser they don't.

mod scalar;
mod tree;

use std::{borrow::Cow, collections::BTreeMap};

use self::{
    scalar::{Scalar, Tag},
    tree::{Kind, Tree},
};
use super::{
    Problem,
    value::{MAX_DEPTH, MAX_VALUES, Value},
};

/// A document, and the line of what follows it without being separated from it: go-yaml doesn't look at that,
/// so it must not count here.
#[derive(Debug)]
pub(super) struct Document<'a> {
    tree: Tree<'a>,
    pub(super) unread: Option<u64>,
}

/// Reads the first document of a text.
pub(super) fn parse(text: &str) -> Result<Document<'_>, Problem> {
    let (tree, unread) = tree::read(text)?;
    Ok(Document { tree, unread })
}

impl Document<'_> {
    /// How many lines are before its root.
    pub(super) fn line(&self) -> u64 {
        self.tree.nodes.first().map_or(0, |root| root.line)
    }

    /// What it stands for.
    pub(super) fn value(&self) -> Result<Value<'_>, Problem> {
        if self.tree.nodes.is_empty() {
            return Ok(Value::Null);
        }
        let mut reader = Reader {
            tree: &self.tree,
            active: vec![false; self.tree.nodes.len()],
            values: 0,
        };
        reader.value(0, 0)
    }
}

/// Makes values of nodes; those that aliases name, as often as they are named.
struct Reader<'t> {
    tree: &'t Tree<'t>,
    /// The collections within which this is: an alias to one of them would have no end.
    active: Vec<bool>,
    values: usize,
}

type Object<'t> = BTreeMap<Cow<'t, str>, Value<'t>>;

impl<'t> Reader<'t> {
    fn problem<T>(&self, node: usize, what: &str) -> Result<T, Problem> {
        Err(Problem {
            line: self.tree.nodes[node].line,
            what: what.to_owned(),
        })
    }

    /// The node that one stands for, and that it counts.
    fn enter(&mut self, node: usize, depth: usize) -> Result<usize, Problem> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return self.problem(
                node,
                "the document has more than a million values, aliases expanded",
            );
        }
        if depth > MAX_DEPTH {
            return self.problem(node, "the document is nested too deeply");
        }
        match self.tree.nodes[node].kind {
            Kind::Alias(target) if self.active[target] => {
                self.problem(node, "an anchor's value contains itself")
            }
            Kind::Alias(target) => Ok(target),
            _ => Ok(node),
        }
    }

    fn value(&mut self, node: usize, depth: usize) -> Result<Value<'t>, Problem> {
        let node = self.enter(node, depth)?;
        let tree = self.tree;
        self.active[node] = true;
        let value = match &tree.nodes[node].kind {
            Kind::Scalar(..) => match self.scalar(node)?.value() {
                Ok(value) => value,
                Err(what) => return self.problem(node, what),
            },
            Kind::Sequence(items) => {
                let items = items.iter().map(|item| self.value(*item, depth + 1));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Kind::Mapping(_) => {
                let mut object = BTreeMap::new();
                self.pairs(node, depth, &mut object)?;
                Value::Object(object)
            }
            // An alias never names another: the parser knows anchors of nodes that are none.
            Kind::Alias(_) => return self.problem(node, "an alias names an alias"),
        };
        self.active[node] = false;
        Ok(value)
    }

    /// Puts the pairs of a mapping where others may be. As in go-yaml, a merge takes place where it stands: it
    /// overrides what stands before it.
    fn pairs(&mut self, node: usize, depth: usize, object: &mut Object<'t>) -> Result<(), Problem> {
        let tree = self.tree;
        let Kind::Mapping(children) = &tree.nodes[node].kind else {
            return self.problem(node, NO_MAP);
        };
        for pair in children.chunks_exact(2) {
            let (key, value) = (pair[0], pair[1]);
            if is_merge(&tree.nodes[key].kind) {
                self.merge(value, depth, object)?;
                continue;
            }
            let target = self.enter(key, depth)?;
            if !matches!(tree.nodes[target].kind, Kind::Scalar(..)) {
                return self.problem(key, "a list or a mapping can't be a key");
            }
            let name = match self.scalar(target)?.key() {
                Ok(name) => name,
                Err(what) => return self.problem(key, what),
            };
            let value = self.value(value, depth + 1)?;
            object.insert(name, value);
        }
        Ok(())
    }

    fn merge(&mut self, node: usize, depth: usize, object: &mut Object<'t>) -> Result<(), Problem> {
        let tree = self.tree;
        if let Kind::Sequence(items) = &tree.nodes[node].kind {
            // The first one is to win.
            return items
                .iter()
                .rev()
                .try_for_each(|item| self.merge_one(*item, depth, object));
        }
        self.merge_one(node, depth, object)
    }

    fn merge_one(&mut self, node: usize, depth: usize, object: &mut Object<'t>) -> Result<(), Problem> {
        let target = self.enter(node, depth + 1)?;
        self.active[target] = true;
        self.pairs(target, depth + 1, object)?;
        self.active[target] = false;
        Ok(())
    }

    fn scalar(&self, node: usize) -> Result<Scalar<'t>, Problem> {
        let tree = self.tree;
        let Kind::Scalar(tag, text) = &tree.nodes[node].kind else {
            return self.problem(node, "a scalar was expected");
        };
        scalar::resolve(*tag, Cow::Borrowed(text.as_ref())).or_else(|what| self.problem(node, what))
    }
}

const NO_MAP: &str = "only a mapping or a list of mappings can be merged with `<<`";

fn is_merge(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Scalar(Tag::Plain | Tag::Merge, text) if text == "<<")
}
