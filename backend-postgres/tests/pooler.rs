//! Behind a transaction pooler: session-bound modes refuse, leases work. Needs `pgbouncer` on the `PATH`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockyard_api::{
    DistributedLock, ErrorKind, FencedRegister, FencingToken, LockName, Release, Renewal, Waking, Write,
};
use lockyard_postgres::{Mode, PostgresConfig, PostgresLock, PostgresRegister};
use lockyard_testbed::timing;
use tokio::task::JoinSet;

mod support;
use support::{Checked, acquire, busy, claim, granted, harness, name};

/// A pooler in front of a server, ended with the value.
struct Pooler {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Pooler {
    /// `None` where there is no PgBouncer.
    async fn start(upstream: u16, settings: &str) -> Checked<Option<Self>> {
        let dir = tempfile::Builder::new().prefix("lockyard-pooler-").tempdir()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let ini = format!(
            "[databases]\npostgres = host=127.0.0.1 port={upstream} user=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
             listen_port={port}\nunix_socket_dir=\nauth_type=any\npool_mode=transaction\ndefault_pool_size=5\n{settings}\n"
        );
        std::fs::write(dir.path().join("pgbouncer.ini"), ini)?;
        let Some(program) = program() else {
            eprintln!("SKIPPED: no pgbouncer on the PATH (apt-get install pgbouncer)");
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.arg("-q").arg(dir.path().join("pgbouncer.ini")).stdout(Stdio::null()).stderr(Stdio::null());
        // It does not run as root.
        if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            open_to_all(dir.path())?;
            command.uid(uid_of("postgres")?);
        }
        let child = command.spawn()?;
        let pooler = Self { child, port, _dir: dir };
        let answers = || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() };
        timing::eventually(Duration::from_secs(5), answers).await.ok_or("the pooler does not answer")?;
        Ok(Some(pooler))
    }

    fn config(&self, mode: Mode) -> Checked<PostgresConfig> {
        Ok(PostgresConfig::from_url(&format!("postgres://postgres@127.0.0.1:{}/postgres", self.port))?.mode(mode))
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let usual = PathBuf::from("/usr/sbin");
    std::env::split_paths(&path).chain([usual]).map(|dir| dir.join("pgbouncer")).find(|program| program.is_file())
}

fn open_to_all(path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

fn uid_of(user: &str) -> Checked<u32> {
    let users = std::fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with(&format!("{user}:"))).ok_or("no such user")?;
    Ok(line.split(':').nth(2).ok_or("no number")?.parse()?)
}

/// B87, B88.
async fn sessions_refuse_and_leases_work(settings: &str) -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let Some(pooler) = Pooler::start(harness.server().ok_or("own")?.addr().port(), settings).await? else {
        return Ok(());
    };
    for mode in [Mode::Advisory, Mode::Row] {
        let error = PostgresLock::connect(pooler.config(mode)?).await.err().ok_or("it connects")?;
        assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
        assert!(error.message().contains("lock=lease"), "{error}");
    }
    let (name, inside) = (name(), Arc::new(AtomicUsize::new(0)));
    let mut contenders = JoinSet::new();
    for _ in 0..6 {
        let (lock, name, inside) =
            (PostgresLock::connect(pooler.config(Mode::Lease)?).await?, name.clone(), Arc::clone(&inside));
        assert_eq!(lock.capabilities().wake, Waking::Polled);
        contenders.spawn(async move {
            for _ in 0..5 {
                let claim = claim(&name).queueing().with_label("it's $1");
                acquire(&lock, &claim, Duration::from_secs(40)).await?;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the name");
                assert!(matches!(lock.renew(&claim).await?, Renewal::Renewed { .. }));
                let holder = lock.inspect(&name).await?.ok_or("it is held")?;
                assert_eq!((holder.owner, holder.label.as_deref()), (Some(claim.owner), Some("it's $1")));
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(lock.release(&claim).await?, Release::Released);
            }
            Checked::Ok(())
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended??;
    }
    // The same rows are seen by a client that is not behind the pooler.
    let direct = harness.client(harness.config()).await?.0;
    let held = claim(&name);
    granted(&direct, &held).await?;
    busy(&PostgresLock::connect(pooler.config(Mode::Lease)?).await?, &claim(&name)).await?;
    renewals_go_together(&pooler).await?;
    registers_work(&pooler, &PostgresRegister::connect(harness.config()).await?).await
}

/// Names that an array written out by hand would trip over, and one that is not held.
async fn renewals_go_together(pooler: &Pooler) -> Checked {
    let lock = PostgresLock::connect(pooler.config(Mode::Lease)?).await?;
    let awkward = ["it's", "a,b", "{}", "\"", "\\", "$q$", "$1", "NULL", "]::text[]", "ü"];
    let name = name();
    let names = awkward.map(|text| LockName::new(format!("{name}{text}")));
    let mut claims = Vec::new();
    for name in names {
        claims.push(claim(&name?));
        granted(&lock, &claims[claims.len() - 1]).await?;
    }
    claims.push(claim(&name));
    let answers = join_all(claims.iter().map(|claim| lock.renew(claim))).await;
    for (at, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer? == Renewal::Lost, at == awkward.len(), "{:?}", claims[at].name);
    }
    Ok(())
}

/// Also where statements meet another process each, and with bytes that no text holds.
async fn registers_work(pooler: &Pooler, direct: &PostgresRegister) -> Checked {
    let (name, token) = (name(), FencingToken::from_server(1)?);
    let mut writers = JoinSet::new();
    for writer in 0..4_u8 {
        let register = PostgresRegister::connect(pooler.config(Mode::Advisory)?).await?;
        let name = name.clone();
        writers.spawn(async move {
            for _ in 0..10 {
                loop {
                    let found = register.read(&name).await?;
                    let mut value = found.value.unwrap_or_default();
                    value.extend([0, writer, 0xff, b'\'']);
                    if let Write::Written { .. } = register.write(&name, &value, token, found.version).await? {
                        break;
                    }
                }
            }
            Checked::Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    let found = direct.read(&name).await?;
    let value = found.value.ok_or("it was written")?;
    for writer in 0..4 {
        let own = value.chunks(4).filter(|chunk| *chunk == [0, writer, 0xff, b'\'']).count();
        assert_eq!(own, 10, "writer {writer} of {value:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_refuses_settings() -> Checked {
    sessions_refuse_and_leases_work("").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_drops_settings() -> Checked {
    sessions_refuse_and_leases_work("ignore_startup_parameters=options,extra_float_digits").await
}
