//! Nodes: the path of a lock's directory, the name of a claim's node, and the order in the queue.
//!
//! The layout is that of Curator's `InterProcessMutex`: children `_c_<id>-lock-<sequence>` of the lock's directory, ordered by
//! the sequence alone (<https://curator.apache.org/docs/recipes-shared-reentrant-lock>). Kazoo's children
//! `<id>__lock__<sequence>` stand in the same queue; every other child is somebody else's business and is not looked at.

use std::fmt::Write as _;

use lockyard_api::{LockName, Namespace, Owner};
use percent_encoding::percent_decode_str;

/// What stands between the identity and the sequence: ours and Curator's, Kazoo's.
const MARKS: [&str; 2] = ["-lock-", "__lock__"];
/// What our nodes and Curator's begin with.
const PROTECTED: &str = "_c_";
const OWNER_DIGITS: usize = 32;

/// The directory that all locks of a client are in: chroot and namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base(String);

impl Base {
    /// `chroot` is a valid path with a leading slash, or empty.
    pub(crate) fn new(chroot: &str, namespace: &Namespace) -> Self {
        let mut path = chroot.trim_end_matches('/').to_owned();
        if !namespace.is_empty() {
            path.push('/');
            push_segment(&mut path, namespace.as_str());
        }
        Self(path)
    }

    /// The path, `/` for the root.
    pub(crate) fn path(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }

    /// Whether locks lie in the root itself.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory of the fenced registers. No lock's directory has this name, since a name's own `%` is encoded.
    pub(crate) fn registers(&self) -> String {
        format!("{}/%register", self.0)
    }

    /// The node of one fenced register.
    pub(crate) fn register(&self, name: &LockName) -> String {
        let mut path = self.registers();
        path.push('/');
        push_segment(&mut path, name.as_str());
        path
    }

    /// The node by which a collection asks what time it is. No lock's directory has this name.
    pub(crate) fn clock(&self) -> String {
        format!("{}/%clock-{}", self.0, Owner::random())
    }

    /// The name whose directory has this name; nothing for what is no lock's.
    pub(crate) fn named(&self, segment: &str) -> Option<LockName> {
        let name = LockName::new(percent_decode_str(segment).decode_utf8().ok()?).ok()?;
        (self.directory(&name) == format!("{}/{segment}", self.0)).then_some(name)
    }

    /// The directory of one lock.
    pub(crate) fn directory(&self, name: &LockName) -> String {
        let mut path = String::with_capacity(self.0.len() + name.as_str().len() + 64);
        path.push_str(&self.0);
        path.push('/');
        if self.is_root() && name.as_str() == "zookeeper" {
            // The server's own directory.
            path.push_str("%7Aookeeper");
        } else {
            push_segment(&mut path, name.as_str());
        }
        path
    }
}

/// Where the node of one claim lies: its path without the sequence, which the server appends.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    prefix: String,
    directory: usize,
}

impl Place {
    pub(crate) fn new(base: &Base, name: &LockName, owner: Owner) -> Self {
        let mut prefix = base.directory(name);
        let directory = prefix.len();
        // Writing to a string does not fail.
        let _ = write!(prefix, "/{PROTECTED}{owner}{}", MARKS[0]);
        Self { prefix, directory }
    }

    /// The lock's directory.
    pub(crate) fn directory(&self) -> &str {
        &self.prefix[..self.directory]
    }

    /// The path up to the sequence.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The path of a child of the lock's directory.
    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.directory())
    }

    /// The name of a node of this directory, given by its path.
    pub(crate) fn name<'a>(&self, path: &'a str) -> &'a str {
        path.get(self.directory + 1..).unwrap_or_default()
    }

    /// The first of the nodes that this claim has in the list: more than one only after a reply was lost.
    pub(crate) fn own<'a>(&'a self, children: &'a [String]) -> Option<&'a str> {
        let numbered = self.all(children).filter_map(|child| Some((child, Sequence::of(child)?)));
        numbered.reduce(|first, next| if next.1.is_before(first.1) { next } else { first }).map(|(child, _)| child)
    }

    /// All nodes that this claim has in the list.
    pub(crate) fn all<'a>(&'a self, children: &'a [String]) -> impl Iterator<Item = &'a str> {
        let mark = &self.prefix[self.directory + 1..];
        children.iter().map(String::as_str).filter(move |child| child.starts_with(mark))
    }
}

/// The owner in the path of one of our nodes.
pub(crate) fn owner_in(path: &str) -> Option<Owner> {
    let name = path.rsplit('/').next()?;
    Sequence::of(name)?;
    Owner::parse(name.strip_prefix(PROTECTED)?.get(..OWNER_DIGITS)?)
}

/// The number that the server gave a node: a signed counter of 32 bits that wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(i32);

impl Sequence {
    /// The sequence of a child, when it is a contender.
    pub(crate) fn of(child: &str) -> Option<Self> {
        let digits = MARKS
            .iter()
            .filter_map(|mark| child.rfind(mark).map(|at| &child[at + mark.len()..]))
            .min_by_key(|d| d.len())?;
        let plain = digits.strip_prefix('-').unwrap_or(digits);
        // The server writes `%010d`: a minus sign is one of the ten characters.
        if digits.len() < 10 || !plain.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok().map(Self)
    }

    /// Whether this one was given earlier. No two nodes that exist together are 2^31 grants apart.
    pub(crate) fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) < 0
    }
}

/// Where a node stands among the contenders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is not in the list.
    Missing,
    /// Nobody is ahead.
    First,
    /// This child is the next one ahead.
    Behind(String),
    /// Nobody is ahead, but these children carry the same sequence: the server's counter stops at its end. Only the
    /// transactions that created them tell the order.
    Tied(Vec<String>),
}

/// Where the child `own` stands in the list of a lock's directory.
pub(crate) fn standing(children: &[String], own: &str) -> Standing {
    let Some(mine) = Sequence::of(own).filter(|_| children.iter().any(|child| child == own)) else {
        return Standing::Missing;
    };
    let mut ahead: Option<(&str, Sequence)> = None;
    let mut tied = Vec::new();
    for child in children {
        let Some(sequence) = Sequence::of(child) else { continue };
        if sequence == mine && child != own {
            tied.push(child.clone());
        } else if sequence.is_before(mine) && ahead.is_none_or(|(_, last)| last.is_before(sequence)) {
            ahead = Some((child, sequence));
        }
    }
    match ahead {
        Some((child, _)) => Standing::Behind(child.to_owned()),
        None if tied.is_empty() => Standing::First,
        None => Standing::Tied(tied),
    }
}

/// The contenders of a list in their order.
pub(crate) fn queue(children: &[String]) -> Vec<&str> {
    let mut queue: Vec<(&str, Sequence)> =
        children.iter().filter_map(|child| Some((child.as_str(), Sequence::of(child)?))).collect();
    queue.sort_by(|(_, a), (_, b)| if a == b { std::cmp::Ordering::Equal } else { order(*a, *b) });
    queue.into_iter().map(|(child, _)| child).collect()
}

fn order(a: Sequence, b: Sequence) -> std::cmp::Ordering {
    if a.is_before(b) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
}

/// Appends a name as one segment of a path: what a path cannot hold is percent-encoded
/// (<https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#ch_zkDataModel>).
fn push_segment(path: &mut String, name: &str) {
    let dots = matches!(name, "." | "..");
    for c in name.chars() {
        let refused = match c {
            '/' | '%' => true,
            '.' => dots,
            // Java counts in units of UTF-16: what is beyond the first plane is surrogates to it.
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'.. => true,
            _ => false,
        };
        if refused {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(path, "%{byte:02X}");
            }
        } else {
            path.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn directory(base: &Base, name: &str) -> String {
        base.directory(&LockName::new(name).expect("a name"))
    }

    #[test]
    fn names_become_one_segment_each() {
        // B61
        let base = Base::new("/app/", &Namespace::default());
        for (name, path) in [
            ("a", "/app/lockyard/a"),
            ("a/b", "/app/lockyard/a%2Fb"),
            ("a%2Fb", "/app/lockyard/a%252Fb"),
            (".", "/app/lockyard/%2E"),
            ("..", "/app/lockyard/%2E%2E"),
            ("...", "/app/lockyard/..."),
            ("zookeeper", "/app/lockyard/zookeeper"),
            ("é", "/app/lockyard/é"),
            ("🔒", "/app/lockyard/%F0%9F%94%92"),
            ("\u{e000}\u{fffd}", "/app/lockyard/%EE%80%80%EF%BF%BD"),
        ] {
            assert_eq!(directory(&base, name), path);
        }
        assert_eq!(directory(&base, "%register"), "/app/lockyard/%25register");
        assert_eq!(base.register(&LockName::new("a/b").expect("a name")), "/app/lockyard/%register/a%2Fb");
        let root = Base::new("", &Namespace::new("").expect("empty"));
        assert_eq!((root.path(), root.is_root()), ("/", true));
        assert_eq!(directory(&root, "zookeeper"), "/%7Aookeeper");
        assert_eq!(directory(&root, "%7Aookeeper"), "/%257Aookeeper");
        assert_eq!(Base::new("/x", &Namespace::new("").expect("empty")).path(), "/x");
    }

    #[test]
    fn a_place_is_curators() {
        let base = Base::new("", &Namespace::default());
        let name = LockName::new("job").expect("a name");
        let place = Place::new(&base, &name, Owner::from_bits(0xab));
        let node = "/lockyard/job/_c_000000000000000000000000000000ab-lock-0000000007";
        assert_eq!(format!("{}0000000007", place.prefix()), node);
        assert_eq!(place.directory(), "/lockyard/job");
        assert_eq!(place.child(place.name(node)), node);
        assert_eq!(owner_in(node), Some(Owner::from_bits(0xab)));
        assert_eq!(owner_in("/lockyard/job/_c_5ab3-lock-0000000007"), None);
        assert_eq!(owner_in("/lockyard/job/config"), None);
    }

    #[test]
    fn an_owner_finds_its_first_node() {
        // B17
        let place = Place::new(
            &Base::new("", &Namespace::default()),
            &LockName::new("job").expect("a name"),
            Owner::from_bits(1),
        );
        let mine = |sequence: &str| format!("_c_{}-lock-{sequence}", Owner::from_bits(1));
        let children = [mine("0000000009"), mine("0000000003"), format!("_c_{}-lock-0000000001", Owner::from_bits(2))];
        assert_eq!(place.own(&children), Some(children[1].as_str()));
        assert_eq!(place.own(&children[2..]), None);
    }

    #[test]
    fn foreign_children_are_no_contenders() {
        // B69
        for child in
            ["foo-bar", "config", "x-0000000000", "lease-0000000001", "a-lock-", "a-lock-12", "a-lock-000000000x", ""]
        {
            assert_eq!(Sequence::of(child), None, "{child}");
        }
        for child in ["_c_0b6e1b9c-0c9c-4f6c-8f3c-2f6f3d1f0e5a-lock-0000000004", "ab12__lock__0000000004"] {
            assert_eq!(Sequence::of(child), Some(Sequence(4)), "{child}");
        }
        let children = list(&["config", "x-0000000000", "a-lock-0000000004", "b__lock__0000000003"]);
        assert_eq!(standing(&children, "a-lock-0000000004"), Standing::Behind("b__lock__0000000003".to_owned()));
        assert_eq!(standing(&children, "b__lock__0000000003"), Standing::First);
        assert_eq!(queue(&children), ["b__lock__0000000003", "a-lock-0000000004"]);
        assert_eq!(standing(&children, "c-lock-0000000005"), Standing::Missing);
        assert_eq!(standing(&[], "c-lock-0000000005"), Standing::Missing);
    }

    #[test]
    fn the_order_survives_the_wrap_of_the_counter() {
        // B127
        let names = ["w-lock-2147483646", "x-lock-2147483647", "y-lock--2147483648", "z-lock--2147483647"];
        assert_eq!(Sequence::of(names[2]), Some(Sequence(i32::MIN)));
        assert_eq!(Sequence::of("z-lock--000000005"), Some(Sequence(-5)));
        let mut children = list(&names);
        for turn in 0..24 {
            children.swap(turn % 4, (turn / 4 + 1) % 4);
            assert_eq!(queue(&children), names);
            assert_eq!(standing(&children, names[0]), Standing::First);
            for pair in names.windows(2) {
                assert_eq!(standing(&children, pair[1]), Standing::Behind(pair[0].to_owned()));
            }
        }
    }

    #[test]
    fn a_counter_that_stands_still_makes_ties() {
        let children = list(&["a-lock-2147483647", "b-lock-2147483647"]);
        assert_eq!(standing(&children, "a-lock-2147483647"), Standing::Tied(vec![children[1].clone()]));
        let children = list(&["a-lock-2147483647", "b-lock-2147483647", "c-lock-2147483646"]);
        assert_eq!(standing(&children, "a-lock-2147483647"), Standing::Behind(children[2].clone()));
    }
}
