//! `takeover`: how long a name stays closed when its holder is killed, frozen or cut off.

use std::time::Duration;

use lockyard_api::Locker;
use lockyard_testbed::{Mode, Proxy};

use super::{Found, Job, Sample, Trial};
use crate::Fault;
use crate::side::{Outcome, Trouble};
use crate::target::Target;
use crate::worker::{Order, Worker};

/// The ttl asked for: what backends that take no shorter one raise it to is the ttl then.
const SHORTEST: Duration = Duration::from_secs(2);
/// Until the waiter stands in the queue.
const SETTLE: Duration = Duration::from_millis(300);
/// What starting a holder may take.
const START: Duration = Duration::from_secs(30);

pub(super) async fn run(job: &Job, fault: Fault) -> Outcome<Trial> {
    let target = job.target.as_ref().ok_or_else(super::no_target)?;
    let spawn = target.worker.as_ref().ok_or_else(super::no_worker)?;
    let locker = Locker::over((target.connect)().await?).build()?;
    let way = Way::to(target, fault).await?;
    let mut holder = Worker::start(spawn, &way.url)?;
    let ttl_millis = u64::try_from(SHORTEST.as_millis()).unwrap_or(u64::MAX);
    holder.tell(&Order::Keep { name: job.name.clone(), ttl_millis }).await?;
    let bound = holder.ready(START).await?.unwrap_or_default();
    let (waiter, name, clock) = (locker.clone(), job.name.clone(), job.clock.clone());
    let waiting = tokio::spawn(async move { waiter.acquire(name).await.map(|guard| (guard, clock.now())) });
    // At any point between two renewals.
    job.clock.sleep(SETTLE + (SHORTEST / 3).mul_f64(fastrand::f64())).await;
    if waiting.is_finished() {
        return Err(Trouble::new("the name was granted before anything happened to its holder"));
    }
    let broken = job.clock.now();
    match fault {
        Fault::Killed => holder.kill().await?,
        Fault::Frozen => holder.freeze()?,
        Fault::CutOff => way.cut().await,
    }
    let limit = bound * 3 + START;
    let granted = tokio::time::timeout(limit, waiting).await;
    let granted = granted.map_err(|_| Trouble::new(format!("nobody got the name within {} s", limit.as_secs())))?;
    let (guard, at) = granted??;
    holder.kill().await?;
    let _ = guard.release().await;
    let _ = locker.shutdown().await;
    let found = Found::Takeover { seconds: at.since(broken).as_secs_f64(), bound_seconds: bound.as_secs_f64() };
    Ok(Trial { found: Some(found), ..Trial::alone(Sample::default()) })
}

/// The holder's way to the server.
struct Way {
    url: String,
    proxy: Option<Proxy>,
}

impl Way {
    async fn to(target: &Target, fault: Fault) -> Outcome<Self> {
        let (mut url, proxy) = match (fault, &target.server) {
            (Fault::CutOff, Some(server)) => {
                let proxy = Proxy::start(server.addr()).await?;
                let behind = target.url.strip_prefix(&server.lock_url()).unwrap_or_default();
                (server.lock_url_via(proxy.addr()) + behind, Some(proxy))
            }
            (Fault::CutOff, None) => return Err(Trouble::new("there is no connection that could be cut")),
            _ => (target.url.clone(), None),
        };
        if target.has_server() {
            url.push(if url.contains('?') { '&' } else { '?' });
            // What belongs to the session has to be as short as the lease.
            url += &format!("ttl={}ms", SHORTEST.as_millis());
        }
        Ok(Self { url, proxy })
    }

    /// From now on nothing passes, and nobody hears of it.
    async fn cut(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.set(Mode::Hold).await;
        }
    }
}
