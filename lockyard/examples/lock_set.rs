//! What a pause of the holder does to a set that is read, changed and written back under a lock, without fencing and with it.
//!
//! ```sh
//! cargo run --example lock_set                              # in memory
//! cargo run --example lock_set -- redis://127.0.0.1/        # or postgres://…?lock=lease, etcd://…
//! ```
//!
//! In every round the first holder reads the set, and is paused for longer than its lease: a collection of garbage, a full disk, a virtual machine that is moved. A second holder comes in and adds its
//! element. Then the first one goes on and writes what it believes the set to be.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockyard::{Error, FencedRegister, FencingToken, Guard, LockName, Locker, Result, Version, Write, async_trait};

/// How long the lease of the holder is that will be paused.
const LEASE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://lock-set".to_owned());
    let rounds = 5;
    println!("without fencing: {}", run(&url, &Plain::default(), rounds).await?);
    println!("with fencing:    {}", run(&url, &Fenced::connect(&url).await?, rounds).await?);
    Ok(())
}

/// What became of the updates that their writers were told had been made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// Updates that were accepted.
    pub(crate) made: usize,
    /// Writes that were refused, and made again under a new grant.
    pub(crate) refused: usize,
    /// Updates that were accepted and are not in the set.
    pub(crate) lost: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} updates, {} late writes refused, {} updates lost", self.made, self.refused, self.lost)
    }
}

/// Where the set is kept.
#[async_trait]
pub(crate) trait Store: Send + Sync {
    /// The set, and the version that it has.
    async fn read(&self) -> Result<(BTreeSet<String>, Version)>;
    /// Replaces the set; whether the store has accepted that.
    async fn write(&self, set: &BTreeSet<String>, token: FencingToken, version: Version) -> Result<bool>;
}

/// Takes what it is given, as a file, a bucket or a `SET` does.
#[derive(Debug, Default)]
pub(crate) struct Plain(Mutex<BTreeSet<String>>);

#[async_trait]
impl Store for Plain {
    async fn read(&self) -> Result<(BTreeSet<String>, Version)> {
        Ok((self.0.lock().unwrap_or_else(PoisonError::into_inner).clone(), Version::ABSENT))
    }

    async fn write(&self, set: &BTreeSet<String>, _token: FencingToken, _version: Version) -> Result<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(set);
        Ok(true)
    }
}

/// The register of the service that also keeps the locks.
#[derive(Debug)]
pub(crate) struct Fenced {
    register: std::sync::Arc<dyn FencedRegister>,
    name: LockName,
}

impl Fenced {
    /// A set of this service that is empty.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let name = LockName::new(format!("lock-set-{}", std::process::id()))?;
        let store = Self { register: lockyard::connect_register(url).await?, name };
        // What an earlier run has left, under whatever token.
        let found = store.register.read(&store.name).await?;
        if let Some(token) = found.token {
            let _ = store.register.write(&store.name, b"", token, found.version).await?;
        }
        Ok(store)
    }
}

#[async_trait]
impl Store for Fenced {
    async fn read(&self) -> Result<(BTreeSet<String>, Version)> {
        let found = self.register.read(&self.name).await?;
        let text = String::from_utf8_lossy(found.value.as_deref().unwrap_or_default()).into_owned();
        Ok((text.lines().map(str::to_owned).collect(), found.version))
    }

    async fn write(&self, set: &BTreeSet<String>, token: FencingToken, version: Version) -> Result<bool> {
        let text = set.iter().map(|element| format!("{element}\n")).collect::<String>();
        let written = self.register.write(&self.name, text.as_bytes(), token, version).await?;
        Ok(matches!(written, Write::Written { .. }))
    }
}

/// Adds two elements a round, and counts what is left of them.
pub(crate) async fn run(url: &str, store: &dyn Store, rounds: usize) -> Result<Report> {
    let (first, second) = (lockyard::connect(url).await?, lockyard::connect(url).await?);
    let lock = format!("lock-set-{}", std::process::id());
    let mut report = Report { made: 0, refused: 0, lost: 0 };
    let mut made = BTreeSet::new();
    for round in 0..rounds {
        let (early, late) = (format!("second {round}"), format!("first {round}"));
        // Never renewed, as if the process stood still from now on.
        let paused = first.lock(&lock).ttl(LEASE).fixed().acquire().await?;
        let (mut set, version) = store.read().await?;
        // Granted only when the server has let the paused holder go.
        add(&second, &lock, store, &early, &mut report).await?;
        made.insert(early);

        set.insert(late.clone());
        if store.write(&set, token(&paused)?, version).await? {
            report.made += 1;
        } else {
            report.refused += 1;
            add(&first, &lock, store, &late, &mut report).await?;
        }
        made.insert(late);
    }
    let (set, _) = store.read().await?;
    report.lost = made.difference(&set).count();
    Ok(report)
}

/// Adds one element under the lock; again when the store refuses.
async fn add(locks: &Locker, lock: &str, store: &dyn Store, element: &str, report: &mut Report) -> Result<()> {
    loop {
        let guard = locks.acquire(lock).await?;
        let (mut set, version) = store.read().await?;
        set.insert(element.to_owned());
        let accepted = store.write(&set, token(&guard)?, version).await?;
        guard.release().await?;
        if accepted {
            report.made += 1;
            return Ok(());
        }
        report.refused += 1;
    }
}

fn token(guard: &Guard) -> Result<FencingToken> {
    guard.fencing_token().ok_or_else(|| Error::unsupported("this backend gives no fencing tokens"))
}
