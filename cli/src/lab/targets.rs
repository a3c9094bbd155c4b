//! Which backends a command of the laboratory works on.

use lockyard::{LockUrl, Scheme};

use crate::args::TargetArgs;
use crate::exit::Failure;

/// One way to lock that can be checked and measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    File,
    Redis,
    Postgres(PostgresMode),
    Etcd,
    Zookeeper,
}

/// The ways to lock on Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostgresMode {
    Advisory,
    Row,
    Lease,
}

impl PostgresMode {
    /// The value of the key `lock` in a URL.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Advisory => "advisory",
            Self::Row => "row",
            Self::Lease => "lease",
        }
    }
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Memory,
        Self::File,
        Self::Redis,
        Self::Postgres(PostgresMode::Advisory),
        Self::Postgres(PostgresMode::Row),
        Self::Postgres(PostgresMode::Lease),
        Self::Etcd,
        Self::Zookeeper,
    ];

    /// The name in reports and on the command line.
    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Redis => "redis",
            Self::Postgres(PostgresMode::Advisory) => "postgres-advisory",
            Self::Postgres(PostgresMode::Row) => "postgres-row",
            Self::Postgres(PostgresMode::Lease) => "postgres-lease",
            Self::Etcd => "etcd",
            Self::Zookeeper => "zookeeper",
        }
    }

    /// The name of the server: what stands before the first `-`.
    pub(super) fn server(self) -> &'static str {
        self.id().split('-').next().unwrap_or_default()
    }

    /// Whether this program was built with it.
    pub(super) const fn is_built_in(self) -> bool {
        match self {
            Self::Memory => cfg!(feature = "memory"),
            Self::File => cfg!(feature = "file"),
            Self::Redis => cfg!(feature = "redis"),
            Self::Postgres(_) => cfg!(feature = "postgres"),
            Self::Etcd => cfg!(feature = "etcd"),
            Self::Zookeeper => cfg!(feature = "zookeeper"),
        }
    }

    /// The backends of a word on the command line: an id, or the name of a server; `memory:` and `file:` say no more.
    fn named(word: &str) -> Vec<Self> {
        let word = if matches!(word, "memory:" | "file:") { &word[..word.len() - 1] } else { word };
        Self::ALL.into_iter().filter(|kind| kind.id() == word || kind.server() == word).collect()
    }

    /// The backend that a URL leads to.
    fn of_url(url: &str) -> Result<Self, Failure> {
        Ok(match Scheme::of(url)? {
            Scheme::Memory | Scheme::File => {
                return Err(Failure::config(
                    "memory and file are checked in a place of their own: write --backend memory or --backend file",
                ));
            }
            Scheme::Redis => Self::Redis,
            Scheme::Postgres => Self::Postgres(match LockUrl::parse(url)?.take("lock").as_deref() {
                Some("row") => PostgresMode::Row,
                Some("lease") => PostgresMode::Lease,
                _ => PostgresMode::Advisory,
            }),
            Scheme::Etcd => Self::Etcd,
            Scheme::Zookeeper => Self::Zookeeper,
            other => return Err(Failure::config(format!("{} cannot be checked from here", other.feature()))),
        })
    }
}

/// A backend that was chosen.
#[derive(Clone)]
pub(super) struct Candidate {
    /// Its name in the report; the second of a kind has a number.
    pub(super) id: String,
    pub(super) kind: Kind,
    /// Where it is; `None` for one to be started here.
    pub(super) url: Option<String>,
    /// Whether it was asked for by name or URL: when it cannot be had, the command fails.
    pub(super) asked_for: bool,
}

/// The backends chosen on the command line; without a choice all that this program knows.
pub(super) fn chosen(args: &TargetArgs) -> Result<Vec<Candidate>, Failure> {
    let mut chosen: Vec<Candidate> = Vec::new();
    let mut add = |kind: Kind, url: Option<&str>, asked_for| {
        let same = chosen.iter().filter(|candidate| candidate.kind == kind).count();
        let id = if same == 0 { kind.id().to_owned() } else { format!("{}-{}", kind.id(), same + 1) };
        chosen.push(Candidate { id, kind, url: url.map(str::to_owned), asked_for });
    };
    if args.backend.is_empty() {
        Kind::ALL.into_iter().filter(|kind| kind.is_built_in()).for_each(|kind| add(kind, None, false));
    }
    for wanted in &args.backend {
        let named = Kind::named(wanted);
        if named.is_empty() {
            add(Kind::of_url(wanted)?, Some(wanted), true);
        }
        named.into_iter().for_each(|kind| add(kind, None, true));
    }
    if let Some(missing) = chosen.iter().find(|candidate| !candidate.kind.is_built_in()) {
        let server = missing.kind.server();
        return Err(Failure::config(format!("this build has no {server} backend: build it with --features {server}")));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(backends: &[&str]) -> Vec<String> {
        let backend = backends.iter().map(|&backend| backend.to_owned()).collect();
        let chosen = chosen(&TargetArgs { backend });
        chosen.expect("a choice").into_iter().map(|candidate| candidate.id).collect()
    }

    #[test]
    #[cfg(all(feature = "memory", feature = "redis"))]
    fn a_backend_is_chosen_by_name_or_url() {
        assert_eq!(ids(&["redis", "redis://a/", "redis+sentinel://b/s"]), ["redis", "redis-2", "redis-3"]);
        assert!(ids(&[]).contains(&"memory".to_owned()));
        assert!(chosen(&TargetArgs { backend: vec!["rediss".to_owned()] }).is_err());
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn a_postgres_url_says_how_it_locks() {
        assert_eq!(ids(&["postgres://h/?lock=row"]), ["postgres-row"]);
        assert_eq!(ids(&["postgres"]), ["postgres-advisory", "postgres-row", "postgres-lease"]);
    }
}
