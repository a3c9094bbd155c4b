//! Making the planned faults.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockyard::Clock;
use lockyard_conformance::history::FaultKind;
use lockyard_testbed::{Mode, Proxy};
use tokio::task::JoinSet;

use super::plan::Planned;
use super::puppet::now;
use super::stage::Stage;
use super::work::name_of;

/// Makes each fault at its time, and returns when the last is over: with what could not be made.
pub(super) async fn make_all(stage: &Arc<Stage>, planned: Vec<Planned>, duration: Duration) -> Vec<String> {
    let clock = Clock::system();
    let begin = clock.now();
    let mut running = JoinSet::new();
    for fault in planned {
        clock.sleep_until(begin.plus(fault.at)).await;
        let stage = Arc::clone(stage);
        running.spawn(async move {
            let made = make(&stage, &fault).await;
            let text = made.err()?.to_string();
            // The rest is the log of a server.
            let reason = text.lines().next().unwrap_or_default();
            Some(format!("{} could not be made: {reason}", fault.fault.as_str()))
        });
    }
    clock.sleep_until(begin.plus(duration)).await;
    running.join_all().await.into_iter().flatten().collect()
}

async fn make(stage: &Stage, planned: &Planned) -> io::Result<()> {
    match planned.fault {
        FaultKind::ClientFrozen | FaultKind::ClientKilled => client(stage, planned).await,
        FaultKind::ServerFrozen | FaultKind::ServerRestarted => server(stage, planned).await,
        FaultKind::Revoked | FaultKind::SessionEnded => {
            of_holder(stage, planned).await;
            Ok(())
        }
        _ => {
            let slot = &stage.slots[planned.client];
            let (from, process) = (now(), slot.puppet.lock().await.process());
            if let Some(proxy) = &slot.proxy {
                link(proxy, planned).await;
                stage.record.broke(planned.fault, from, Some(process));
            }
            Ok(())
        }
    }
}

/// Takes a name away from its holder, with its session or alone.
async fn of_holder(stage: &Stage, planned: &Planned) {
    let name = name_of(planned.name);
    let Some((process, owner)) = stage.record.holder(&name) else { return };
    let from = now();
    if planned.fault == FaultKind::Revoked {
        stage.site.revoke(&name, &owner).await;
    } else if let Some(pid) = stage.pid_of(process).await {
        stage.site.end_session(pid, &name, &owner).await;
    }
    stage.record.broke(planned.fault, from, Some(process));
}

async fn client(stage: &Stage, planned: &Planned) -> io::Result<()> {
    let slot = &stage.slots[planned.client];
    let (from, process) = (now(), slot.puppet.lock().await.process());
    match planned.fault {
        FaultKind::ClientFrozen => {
            slot.puppet.lock().await.freeze()?;
            Clock::system().sleep(planned.time).await;
            slot.puppet.lock().await.thaw()?;
        }
        _ => stage.replace(planned.client).await?,
    }
    stage.record.broke(planned.fault, from, Some(process));
    Ok(())
}

async fn server(stage: &Stage, planned: &Planned) -> io::Result<()> {
    let Some(server) = stage.site.server() else { return Ok(()) };
    // A restart may take longer than planned: one after the other.
    let _one = stage.at_server.lock().await;
    let from = now();
    let made = match planned.fault {
        FaultKind::ServerFrozen => {
            let frozen = server.freeze().await;
            Clock::system().sleep(planned.time).await;
            server.thaw().await.and(frozen)
        }
        _ => match server.kill().await {
            Ok(()) => server.restart().await,
            failed => failed,
        },
    };
    stage.record.broke(planned.fault, from, None);
    made.map_err(io::Error::other)
}

/// Breaks the way of a client for a time, and heals it.
async fn link(proxy: &Proxy, planned: &Planned) {
    let wait = Clock::system();
    match planned.fault {
        FaultKind::LinkHeld => proxy.set(Mode::Hold).await,
        FaultKind::RequestsDropped => proxy.set(Mode::DropRequests).await,
        FaultKind::RepliesDropped => proxy.set(Mode::DropReplies).await,
        FaultKind::LinkDelayed => proxy.delay(Duration::from_millis(planned.amount as u64)),
        FaultKind::RepliesSwallowed => proxy.swallow_replies(planned.amount),
        _ if planned.amount > 0 => proxy.cut_requests_after(planned.amount),
        _ => {
            if !planned.time.is_zero() {
                proxy.set(Mode::Refuse).await;
            }
            proxy.reset();
        }
    }
    wait.sleep(planned.time).await;
    proxy.set(Mode::Pass).await;
    proxy.delay(Duration::ZERO);
    proxy.swallow_replies(0);
    proxy.cut_requests_after(usize::MAX);
}
