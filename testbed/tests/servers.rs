//! Every service is started, broken, restarted and ended, each check as a trial of its own; one that cannot run here is ignored
//! with the reason.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use lockyard_testbed::timing::eventually;
use lockyard_testbed::{FaultError, Options, Server, Service, StartError, require};

mod talk;

const SOON: Duration = Duration::from_secs(10);
const BRIEFLY: Duration = Duration::from_millis(300);

/// Makes this binary start a server of the named service, say where it is, and wait to be killed.
const VICTIM: &str = "LOCKYARD_TESTBED_VICTIM";
/// Makes this binary join the server of the named service that its environment tells.
const GUEST: &str = "LOCKYARD_TESTBED_GUEST";
const ALLOW_FAULTS: &str = "LOCKYARD_ALLOW_FAULTS";

type Check = fn(Service) -> Pin<Box<dyn Future<Output = Result<(), Box<dyn std::error::Error>>>>>;

fn main() -> ExitCode {
    if let Ok(service) = std::env::var(VICTIM) {
        return victim(&service);
    }
    if let Ok(service) = std::env::var(GUEST) {
        return guest(&service);
    }
    let checks: [(&str, Check); 13] = [
        ("starts_and_answers", |service| Box::pin(starts_and_answers(service))),
        ("starts_many_at_once", |service| Box::pin(starts_many_at_once(service))),
        ("answers_nothing_while_frozen", |service| Box::pin(answers_nothing_while_frozen(service))),
        ("keeps_its_data_over_a_kill", |service| Box::pin(keeps_its_data_over_a_kill(service))),
        ("keeps_its_data_over_a_stop", |service| Box::pin(keeps_its_data_over_a_stop(service))),
        ("loses_its_data_when_restarted_empty", |service| Box::pin(loses_its_data_when_restarted_empty(service))),
        ("can_be_killed_while_frozen", |service| Box::pin(can_be_killed_while_frozen(service))),
        ("leaves_nothing_when_dropped", |service| Box::pin(leaves_nothing_when_dropped(service))),
        ("leaves_nothing_when_its_test_is_killed", |service| Box::pin(leaves_nothing_when_its_test_is_killed(service))),
        ("leaves_nothing_when_its_test_exits", |service| Box::pin(leaves_nothing_when_its_test_exits(service))),
        ("counts_requests", |service| Box::pin(counts_requests(service))),
        ("is_joined_and_left_alone", |service| Box::pin(is_joined_and_left_alone(service))),
        ("tells_why_it_did_not_start", |service| Box::pin(tells_why_it_did_not_start(service))),
    ];
    let trials = Service::ALL.into_iter().flat_map(|service| {
        checks.map(|(name, check)| Trial::ignorable_test(format!("{service}::{name}"), move || run(service, check)))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn run(service: Service, check: Check) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match runtime.block_on(check(service)) {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => match error.downcast_ref::<StartError>() {
            Some(StartError::Absent(absent)) if !require::required(service) => Ok(Completion::ignored_with(absent)),
            _ => Err(error.to_string().into()),
        },
    }
}

type Done = Result<(), Box<dyn std::error::Error>>;

async fn own(service: Service, options: Options) -> Result<Server, StartError> {
    Server::start_with(service, options.native_only()).await
}

/// Options under which the data is on disk before a write is answered, as it is on all services but Redis anyway.
fn durable(service: Service) -> Options {
    match service {
        Service::Redis => Options::new().args(["--appendonly", "yes", "--appendfsync", "always"]),
        _ => Options::new(),
    }
}

async fn starts_and_answers(service: Service) -> Done {
    let server = own(service, Options::new()).await?;
    assert!(server.answers(SOON).await);
    assert!(server.version().starts_with(|first: char| first.is_ascii_digit()), "version {:?}", server.version());
    assert!(server.url().contains(&server.addr().to_string()));
    assert!(server.lock_url().contains(&server.addr().to_string()));
    assert!(!server.is_joined() && server.faults_allowed());
    Ok(())
}

async fn starts_many_at_once(service: Service) -> Done {
    let (first, second, third) =
        tokio::join!(own(service, Options::new()), own(service, Options::new()), own(service, Options::new()));
    let mut addresses = [first?, second?, third?].map(|server| server.addr().port());
    addresses.sort_unstable();
    assert!(addresses[0] < addresses[1] && addresses[1] < addresses[2]);
    Ok(())
}

async fn answers_nothing_while_frozen(service: Service) -> Done {
    let server = own(service, Options::new()).await?;
    talk::write(&server).await?;
    server.freeze().await?;
    assert!(!server.answers(BRIEFLY).await);
    assert!(tokio::time::timeout(BRIEFLY, talk::read(&server)).await.is_err(), "a frozen server answered");
    TcpStream::connect(server.addr())?;
    server.thaw().await?;
    assert!(server.answers(SOON).await);
    assert!(talk::read(&server).await?);
    Ok(())
}

async fn keeps_its_data_over_a_kill(service: Service) -> Done {
    let server = own(service, durable(service)).await?;
    talk::write(&server).await?;
    let (addr, pid) = (server.addr(), server.pid());
    server.kill().await?;
    assert_eq!(server.pid(), None);
    assert!(!server.answers(BRIEFLY).await);
    assert!(matches!(server.freeze().await, Err(FaultError::NotRunning(_))));
    server.restart().await?;
    assert!(server.pid().is_some() && server.pid() != pid);
    assert_eq!(server.addr(), addr);
    assert!(talk::read(&server).await?, "the data is gone");
    Ok(())
}

async fn keeps_its_data_over_a_stop(service: Service) -> Done {
    let server = own(service, durable(service)).await?;
    talk::write(&server).await?;
    server.stop().await?;
    server.stop().await?;
    assert_eq!(server.pid(), None);
    server.restart().await?;
    // Restarted while it runs.
    server.restart().await?;
    assert!(talk::read(&server).await?, "the data is gone");
    Ok(())
}

async fn loses_its_data_when_restarted_empty(service: Service) -> Done {
    let server = own(service, durable(service)).await?;
    talk::write(&server).await?;
    assert!(talk::read(&server).await?);
    server.restart_empty().await?;
    assert!(!talk::read(&server).await?, "the data is still there");
    Ok(())
}

async fn can_be_killed_while_frozen(service: Service) -> Done {
    let server = own(service, Options::new()).await?;
    server.freeze().await?;
    server.kill().await?;
    server.restart().await?;
    server.freeze().await?;
    server.stop().await?;
    assert_eq!(server.pid(), None);
    Ok(())
}

async fn leaves_nothing_when_dropped(service: Service) -> Done {
    let server = own(service, Options::new()).await?;
    let traces = Traces::of(server.pid().ok_or("no process")?)?;
    drop(server);
    assert_eq!(traces.left(), Vec::<String>::new());

    let frozen = own(service, Options::new()).await?;
    frozen.freeze().await?;
    let traces = Traces::of(frozen.pid().ok_or("no process")?)?;
    let panics = std::panic::AssertUnwindSafe(move || {
        let _dropped_by_the_panic = frozen;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(traces.left(), Vec::<String>::new());
    Ok(())
}

async fn leaves_nothing_when_its_test_is_killed(service: Service) -> Done {
    let (mut victim, traces) = start_victim(service).await?;
    victim.kill()?;
    victim.wait()?;
    traces.vanish().await
}

/// A server in a static is not dropped at exit.
async fn leaves_nothing_when_its_test_exits(service: Service) -> Done {
    let (mut victim, traces) = start_victim(service).await?;
    drop(victim.stdin.take());
    assert!(victim.wait()?.success());
    traces.vanish().await
}

async fn counts_requests(service: Service) -> Done {
    let server = own(service, Options::new().counting()).await?;
    let before = server.requests().await?;
    assert_eq!(server.requests().await?, before, "the question was counted");
    let expected = talk::write(&server).await?;
    let added = server.requests().await?.since(&before);
    assert_eq!(added.iter().collect::<Vec<_>>(), expected);
    server.restart().await?;
    assert_eq!(server.requests().await?, before, "a restart begins at nothing");
    if service != Service::Etcd {
        let plain = own(service, Options::new()).await?;
        assert!(matches!(plain.requests().await, Err(FaultError::NotCounting(_))));
    }
    Ok(())
}

async fn is_joined_and_left_alone(service: Service) -> Done {
    let options = match service {
        Service::Redis => Options::new().args(["--requirepass", "open-sesame"]),
        _ => Options::new(),
    };
    let server = own(service, options).await?;
    assert!(!format!("{server:?}").contains("sesame"));
    for (url, allow_faults) in [(server.url(), "0"), (server.lock_url(), "1")] {
        let mut guest = Command::new(std::env::current_exe()?);
        guest.env(GUEST, service.id()).env(service.env_var(), url).env(ALLOW_FAULTS, allow_faults);
        let output = guest.output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(server.answers(SOON).await);
    }
    Ok(())
}

async fn tells_why_it_did_not_start(service: Service) -> Done {
    let nonsense = match service {
        Service::Redis => ["--no-such-option", "1"],
        Service::Postgres => ["-c", "no_such_option=1"],
        Service::Etcd => ["--no-such-option", "1"],
        _ => ["tickTime=no-such-option", ""],
    };
    match own(service, Options::new().args(nonsense)).await {
        Err(StartError::Failed(failed)) => {
            let failed = failed.to_string();
            assert!(failed.contains("no-such-option") || failed.contains("no_such_option"), "{failed}");
            Ok(())
        }
        Err(absent) => Err(absent.into()),
        Ok(_) => Err("it started".into()),
    }
}

/// What a server leaves in the system: its processes, its directory, its shared memory and what else it maps to write.
struct Traces {
    pids: Vec<u32>,
    home: PathBuf,
    segments: Vec<String>,
    mapped: Vec<PathBuf>,
}

impl Traces {
    fn of(pid: u32) -> std::io::Result<Self> {
        let data = std::fs::read_link(format!("/proc/{pid}/cwd"))?;
        let home = data
            .ancestors()
            .find(|dir| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lockyard-testbed-")));
        let home = home.ok_or(std::io::ErrorKind::NotFound)?.to_owned();
        let pids: Vec<u32> = pids().filter(|pid| works_in(*pid, &home)).collect();
        let mapped = pids.iter().flat_map(|pid| mapped_by(*pid)).filter(|file| file.exists()).collect();
        Ok(Self { segments: segments(&pids)?, mapped, pids, home })
    }

    fn left(&self) -> Vec<String> {
        let processes = self.pids.iter().filter(|pid| works_in(**pid, &self.home)).map(|pid| format!("process {pid}"));
        let late = pids().filter(|pid| works_in(*pid, &self.home)).map(|pid| format!("late process {pid}"));
        let directory = self.home.exists().then(|| format!("directory {}", self.home.display()));
        let segments = segments(&self.pids).unwrap_or_default().into_iter();
        let segments = segments.filter(|segment| self.segments.contains(segment)).map(|id| format!("segment {id}"));
        let mapped = self.mapped.iter().filter(|file| file.exists()).map(|file| format!("file {}", file.display()));
        processes.chain(late).chain(directory).chain(segments).chain(mapped).collect()
    }

    async fn vanish(&self) -> Done {
        match eventually(SOON, || async { self.left().is_empty() }).await {
            Some(()) => Ok(()),
            None => Err(format!("left behind: {:?}", self.left()).into()),
        }
    }
}

fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The segments of System V memory that one of `pids` made (<https://man7.org/linux/man-pages/man5/proc_sysvipc.5.html>).
fn segments(pids: &[u32]) -> std::io::Result<Vec<String>> {
    let table = std::fs::read_to_string("/proc/sysvipc/shm")?;
    let made = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let creator = fields.get(4)?.parse().ok()?;
        pids.contains(&creator).then(|| fields[1].to_owned())
    });
    Ok(made.collect())
}

/// The files that `pid` shares memory by (<https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html>).
fn mapped_by(pid: u32) -> Vec<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let shared = maps.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(1).filter(|rights| rights.starts_with("rw") && rights.ends_with('s'))?;
        fields.nth(3).map(PathBuf::from)
    });
    shared.filter(|file| file.is_absolute() && !file.starts_with("/dev/zero")).collect()
}

fn works_in(pid: u32, home: &std::path::Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(home))
}

/// Runs this binary as a process that has a server, and waits until it has.
async fn start_victim(service: Service) -> Result<(Child, Traces), Box<dyn std::error::Error>> {
    let mut victim = Command::new(std::env::current_exe()?)
        .env(VICTIM, service.id())
        .env_remove(service.env_var())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(victim.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    if let Ok(pid) = line.trim().parse() {
        return Ok((victim, Traces::of(pid)?));
    }
    victim.wait()?;
    // Tells why, when the service is absent.
    own(service, Options::new()).await?;
    Err(format!("the victim could not start {service}").into())
}

fn victim(service: &str) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    let started = service.parse().map(|service| runtime.block_on(Server::shared(service)));
    match started {
        Ok(Ok(server)) => println!("{}", server.pid().unwrap_or_default()),
        _ => return ExitCode::FAILURE,
    }
    // Until the other end is closed.
    let _end = std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new());
    ExitCode::SUCCESS
}

fn guest(service: &str) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    let joined = runtime.block_on(async {
        let server = Server::start(service.parse()?).await?;
        assert!(server.is_joined() && server.pid().is_none());
        assert!(!server.version().is_empty());
        assert!(server.url().contains(&server.addr().to_string()));
        assert!(server.answers(SOON).await);
        assert!(!format!("{server:?}").contains("sesame"));
        let refused = server.freeze().await;
        if std::env::var(ALLOW_FAULTS).is_ok_and(|value| value == "1") {
            assert!(server.faults_allowed() && matches!(refused, Err(FaultError::OutOfReach(_))));
        } else {
            assert!(!server.faults_allowed() && matches!(refused, Err(FaultError::NotAllowed(_))));
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    match joined {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
