//! Random stacks of layers against a plain model of the image-spec's rules, kept in memory.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Act {
    File(String, u8, usize),
    Dir(String),
    Link(String, String),
    Hard(String, String),
    Hide(String, String),
    Opaque(String),
}

/// Small enough that entries meet, with every kind of alias.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4).prop_map(|parts| parts.join("/"))
}

fn target() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "c", ".."]);
    (any::<bool>(), prop::collection::vec(part, 1..4))
        .prop_map(|(absolute, parts)| format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
}

fn act() -> impl Strategy<Value = Act> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let parent = prop_oneof![Just(String::new()), path()];
    prop_oneof![
        6 => (path(), any::<u8>(), prop_oneof![8 => 0..100_usize, 1 => Just(70_000)])
            .prop_map(|(path, byte, len)| Act::File(path, byte, len)),
        3 => path().prop_map(Act::Dir),
        2 => (path(), target()).prop_map(|(path, target)| Act::Link(path, target)),
        2 => (path(), path()).prop_map(|(path, target)| Act::Hard(path, target)),
        2 => (parent.clone(), name).prop_map(|(parent, name)| Act::Hide(parent, name.to_owned())),
        1 => parent.prop_map(Act::Opaque),
    ]
}

fn stack() -> impl Strategy<Value = Vec<Vec<Act>>> {
    prop::collection::vec(prop::collection::vec(act(), 0..14), 1..4)
}

fn build(acts: &[Act]) -> Vec<u8> {
    let below = |parent: &str, name: &str| {
        if parent.is_empty() {
            name.to_owned()
        } else {
            format!("{parent}/{name}")
        }
    };
    let layer = acts.iter().fold(Layer::new(), |layer, act| match act {
        Act::File(path, byte, len) => layer.file(path, vec![*byte; *len]),
        Act::Dir(path) => layer.dir(path),
        Act::Link(path, target) => layer.symlink(path, target),
        Act::Hard(path, target) => layer.hard_link(path, target),
        Act::Hide(parent, name) => layer.file(&below(parent, &format!(".wh.{name}")), ""),
        Act::Opaque(parent) => layer.file(&below(parent, ".wh..wh..opq"), ""),
    });
    layer.end()
}

type Id = usize;

#[derive(Debug, Clone)]
enum Thing {
    Dir { names: BTreeMap<String, Id>, above: Id },
    File(Vec<u8>),
    Link(String),
}

const ROOT: Id = 0;

/// Nodes by number; numbers are never used again, so what a layer has made is a set of (directory, name).
struct Model {
    things: Vec<Thing>,
    made: BTreeSet<(Id, String)>,
}

/// The archive is malformed.
struct Malformed;

impl Model {
    fn new() -> Self {
        Self {
            things: vec![Thing::Dir {
                names: BTreeMap::new(),
                above: ROOT,
            }],
            made: BTreeSet::new(),
        }
    }

    fn names(&mut self, dir: Id) -> &mut BTreeMap<String, Id> {
        match &mut self.things[dir] {
            Thing::Dir { names, .. } => names,
            _ => panic!("{dir} is no directory"),
        }
    }

    fn get(&mut self, dir: Id, name: &str) -> Option<Id> {
        self.names(dir).get(name).copied()
    }

    fn put(&mut self, dir: Id, name: &str, thing: Thing) -> Id {
        self.things.push(thing);
        let id = self.things.len() - 1;
        self.names(dir).insert(name.to_owned(), id);
        self.made.insert((dir, name.to_owned()));
        id
    }

    fn walk(&mut self, path: &str, make: bool) -> Result<Option<Id>, Malformed> {
        let mut ahead: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let (mut dir, mut links) = (ROOT, 0);
        while let Some(part) = ahead.pop() {
            if part.is_empty() {
                continue;
            }
            if part == ".." {
                let Thing::Dir { above, .. } = self.things[dir] else {
                    unreachable!()
                };
                dir = above;
                continue;
            }
            let next = match self.get(dir, &part) {
                Some(next) => next,
                None if make => self.put(
                    dir,
                    &part,
                    Thing::Dir {
                        names: BTreeMap::new(),
                        above: dir,
                    },
                ),
                None => return Ok(None),
            };
            match self.things[next].clone() {
                Thing::Dir { .. } => dir = next,
                Thing::File(_) if make => return Err(Malformed),
                Thing::File(_) => return Ok(None),
                Thing::Link(target) => {
                    links += 1;
                    if links > 40 {
                        return Err(Malformed);
                    }
                    if target.starts_with('/') {
                        dir = ROOT;
                    }
                    ahead.extend(target.split('/').rev().map(str::to_owned));
                }
            }
        }
        Ok(Some(dir))
    }

    fn is_dir(&self, id: Id) -> bool {
        matches!(self.things[id], Thing::Dir { .. })
    }

    /// Hides what is not this layer's; gives whether the name is gone.
    fn hide(&mut self, dir: Id, name: &str) -> bool {
        let Some(id) = self.get(dir, name) else {
            return true;
        };
        if self.is_dir(id) {
            self.hide_all(id);
        }
        let stays =
            self.made.contains(&(dir, name.to_owned())) || self.is_dir(id) && !self.names(id).is_empty();
        if !stays {
            self.names(dir).remove(name);
        }
        !stays
    }

    fn hide_all(&mut self, dir: Id) {
        for name in self.names(dir).keys().cloned().collect::<Vec<_>>() {
            self.hide(dir, &name);
        }
    }

    fn apply(&mut self, act: &Act) -> Result<(), Malformed> {
        let split = |path: &str| match path.rsplit_once('/') {
            Some((parent, name)) => (parent.to_owned(), name.to_owned()),
            None => (String::new(), path.to_owned()),
        };
        match act {
            Act::Hide(parent, name) => {
                if let Some(dir) = self.walk(parent, false)? {
                    self.hide(dir, name);
                }
            }
            Act::Opaque(parent) => {
                if let Some(dir) = self.walk(parent, false)? {
                    self.hide_all(dir);
                }
            }
            Act::Dir(path) => {
                let (parent, name) = split(path);
                let dir = self.walk(&parent, true)?.ok_or(Malformed)?;
                match self.get(dir, &name) {
                    Some(id) if self.is_dir(id) => {
                        self.made.insert((dir, name));
                    }
                    _ => {
                        self.put(
                            dir,
                            &name,
                            Thing::Dir {
                                names: BTreeMap::new(),
                                above: dir,
                            },
                        );
                    }
                }
            }
            Act::File(path, byte, len) => {
                let (parent, name) = split(path);
                let dir = self.walk(&parent, true)?.ok_or(Malformed)?;
                self.put(dir, &name, Thing::File(vec![*byte; *len]));
            }
            Act::Link(path, target) => {
                let (parent, name) = split(path);
                let dir = self.walk(&parent, true)?.ok_or(Malformed)?;
                self.put(dir, &name, Thing::Link(target.clone()));
            }
            Act::Hard(path, target) => {
                let (parent, name) = split(path);
                let dir = self.walk(&parent, true)?.ok_or(Malformed)?;
                let (target_parent, target_name) = split(target);
                let target_dir = self.walk(&target_parent, false)?.ok_or(Malformed)?;
                let id = self.get(target_dir, &target_name).ok_or(Malformed)?;
                if self.is_dir(id) {
                    return Err(Malformed);
                }
                // What the link replaces goes first, and the target may be below it.
                if let Some(old) = self.get(dir, &name)
                    && old != id
                {
                    if self.is_dir(old) && self.is_below(target_dir, old) {
                        return Err(Malformed);
                    }
                    self.names(dir).remove(&name);
                }
                self.names(dir).insert(name.clone(), id);
                self.made.insert((dir, name));
            }
        }
        Ok(())
    }

    fn is_below(&self, mut dir: Id, top: Id) -> bool {
        while dir != top {
            let Thing::Dir { above, .. } = self.things[dir] else {
                unreachable!()
            };
            if dir == ROOT {
                return false;
            }
            dir = above;
        }
        true
    }

    fn list(&mut self, dir: Id, prefix: &str, found: &mut Nodes) {
        for (name, id) in self.names(dir).clone() {
            let path = format!("{prefix}{name}");
            let node = match self.things[id].clone() {
                Thing::Dir { .. } => {
                    self.list(id, &format!("{path}/"), found);
                    Node::Dir
                }
                Thing::File(content) => Node::File(content),
                Thing::Link(target) => Node::Link(target),
            };
            found.insert(path, node);
        }
    }
}

fn expected(stack: &[Vec<Act>]) -> Result<Nodes, Malformed> {
    let mut model = Model::new();
    for layer in stack {
        model.made.clear();
        for act in layer {
            model.apply(act)?;
        }
    }
    let mut found = Nodes::new();
    model.list(ROOT, "", &mut found);
    Ok(found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn stacks_unpack_as_the_model_says(stack in stack()) {
        let layers: Vec<_> = stack.iter().map(|acts| build(acts)).collect();
        let found = unpack_with(&layers, &TreeOptions::default(), &Limits::default());
        match (expected(&stack), found) {
            (Ok(expected), Ok((found, _))) => prop_assert_eq!(found, expected),
            (Err(Malformed), Err(fault)) => prop_assert_eq!(fault.reason, Reason::MalformedLayer),
            (expected, found) => prop_assert!(false, "model: {:?}, found: {found:?}", expected.ok()),
        }
    }

    /// Without links, a selection is the part of the whole that is at or below its path.
    #[test]
    fn a_selection_is_a_part_of_the_whole(stack in stack(), selected in path()) {
        let links = |act: &Act| !matches!(act, Act::Link(..) | Act::Hard(..));
        let stack: Vec<Vec<_>> = stack.into_iter().map(|acts| acts.into_iter().filter(links).collect()).collect();
        let layers: Vec<_> = stack.iter().map(|acts| build(acts)).collect();
        let Ok(mut whole) = expected(&stack) else { return Ok(()) };
        let options = TreeOptions { selection: Some(selected.clone()), ..TreeOptions::default() };
        let found = unpack_with(&layers, &options, &Limits::default());
        if whole.contains_key(&selected) {
            let within = |path: &str, top: &str| path == top || path.starts_with(&format!("{top}/"));
            whole.retain(|path, _| within(path, &selected) || within(&selected, path));
            prop_assert_eq!(found.unwrap().0, whole);
        } else {
            prop_assert_eq!(found.unwrap_err().reason, Reason::SelectionNotFound);
        }
    }
}
