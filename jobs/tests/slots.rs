//! Slots under a lock of the caller: each is claimed once, whatever the clocks.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Clock, FencedRegister, FencingToken, LockName, Locker, Namespace};
use lockyard_jobs::{JobError, RecordError, Schedule, SlotClaim, Slots, Status, WallTime};
use lockyard_memory::{MemoryOptions, MemoryServer};

struct Host {
    locks: Locker,
    register: Arc<dyn FencedRegister>,
}

fn host(server: &MemoryServer) -> Host {
    let locks = Locker::new(server.connect(Namespace::default())).expect("inside a runtime");
    Host { locks, register: Arc::new(server.register(Namespace::default())) }
}

impl Host {
    fn slots(&self) -> Slots {
        let hourly = Schedule::every(Duration::from_secs(3600));
        Slots::new("job", &hourly, Arc::clone(&self.register), Clock::system()).expect("a schedule")
    }

    /// Takes the lock, claims the slot of this time, and ends at once.
    async fn start(&self, time: &str) -> Result<bool, JobError> {
        let slots = self.slots();
        let slot = slots.slot_at(time.parse().expect("a time")).expect("there are ticks before it");
        let guard = self.locks.acquire("job").await.expect("free");
        let claim = slots.claim(&guard, slot, "host").await?;
        let claimed = matches!(claim, SlotClaim::Claimed(_));
        if let SlotClaim::Claimed(claimed) = claim {
            slots.close(claimed, Status::Succeeded, None).await?;
        }
        guard.release().await.expect("answered");
        Ok(claimed)
    }
}

/// B137: the clocks of the hosts differ by seconds, the job takes no time.
#[tokio::test]
async fn hosts_whose_clocks_differ_start_a_slot_once() {
    let server = MemoryServer::new(MemoryOptions::default());
    let (early, late) = (host(&server), host(&server));
    assert!(early.start("2026-05-05T01:59:58Z").await.expect("a record"));
    assert!(!late.start("2026-05-05T02:00:01Z").await.expect("a record"));
    assert!(!early.start("2026-05-05T01:10:00Z").await.expect("a record"), "slots only rise");
    assert!(late.start("2026-05-05T03:00:01Z").await.expect("a record"));
}

#[tokio::test]
async fn a_slot_that_was_never_closed_is_used_and_the_next_is_not() {
    let server = MemoryServer::new(MemoryOptions::default());
    let host = host(&server);
    let slot: WallTime = "2026-05-05T02:00:00Z".parse().expect("a time");
    let guard = host.locks.acquire("job").await.expect("free");
    assert!(matches!(host.slots().claim(&guard, slot, "web-1").await.expect("a record"), SlotClaim::Claimed(_)));
    drop(guard);
    host.locks.shutdown().await.expect("answered");
    let next = self::host(&server);
    let guard = next.locks.acquire("job").await.expect("free");
    match next.slots().claim(&guard, slot, "web-2").await.expect("a record") {
        SlotClaim::Used { by, .. } => assert_eq!(by.as_deref(), Some("web-1")),
        other => panic!("{other:?}"),
    }
    guard.release().await.expect("answered");
    assert!(next.start("2026-05-05T03:00:00Z").await.expect("a record"));
}

#[tokio::test]
async fn a_record_that_cannot_be_used_is_left_alone() {
    let server = MemoryServer::new(MemoryOptions::default());
    let host = host(&server);
    let name = LockName::new("@run/job").expect("a name");
    for (record, newer) in [(&br#"{"v":99}"#[..], true), (b"{]", false)] {
        let found = host.register.read(&name).await.expect("answered");
        let token = FencingToken::new(0).expect("small");
        let _ = host.register.write(&name, record, token, found.version).await.expect("written");
        let error = host.start("2026-05-05T02:00:00Z").await.expect_err("not to be used");
        let JobError::Record { source, .. } = error else { panic!("{error}") };
        assert_eq!(matches!(source, RecordError::Newer { .. }), newer, "{source}");
        assert_eq!(host.register.read(&name).await.expect("answered").value.as_deref(), Some(record));
    }
}
