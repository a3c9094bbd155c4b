//! What happens when, in time that only the test moves.

use std::time::Duration;

use lockyard_api::{
    Attempt, Claim, Clock, DistributedLock, ErrorKind, FencedRegister, Liveness, LockName, LostReason, Namespace,
    Outcome, Queueing, Release, Renewal, Version, Wake, Write,
};
use lockyard_memory::{MemoryLiveness, MemoryLock, MemoryOptions, MemoryServer};

const TTL: Duration = Duration::from_secs(30);

fn server(options: MemoryOptions) -> (MemoryServer, Clock) {
    let clock = Clock::manual();
    (MemoryServer::new(options.clock(clock.clone()).session_ttl(TTL)), clock)
}

fn client(server: &MemoryServer) -> MemoryLock {
    server.connect(Namespace::default())
}

fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).expect("a name"), TTL)
}

async fn takes(lock: &MemoryLock, claim: &Claim) -> bool {
    matches!(lock.try_acquire(claim).await.expect("memory answers"), Attempt::Granted(_))
}

async fn queues(lock: &MemoryLock, claim: &Claim) -> bool {
    matches!(lock.try_acquire(claim).await.expect("memory answers"), Attempt::Queued)
}

/// Lets the tasks that wake up at this moment run to their next wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_lease_ends_to_the_nanosecond() {
    let (server, clock) = server(MemoryOptions::default());
    let (a, b) = (client(&server), client(&server));
    assert!(takes(&a, &claim("x")).await);
    clock.advance(TTL - Duration::from_nanos(1));
    assert!(!takes(&b, &claim("x")).await);
    clock.advance(Duration::from_nanos(1));
    assert!(takes(&b, &claim("x")).await);
}

#[tokio::test]
async fn a_renewed_lease_runs_from_the_renewal() {
    let (server, clock) = server(MemoryOptions::default());
    let (a, b) = (client(&server), client(&server));
    let held = claim("x");
    assert!(takes(&a, &held).await);
    for _ in 0..10 {
        clock.advance(TTL * 2 / 3);
        let renewed = a.renew(&held).await.expect("memory answers");
        assert_eq!(renewed, Renewal::Renewed { ttl: TTL, valid_from: clock.now() });
        assert!(!takes(&b, &claim("x")).await);
    }
    clock.advance(TTL);
    assert_eq!(a.renew(&held).await.expect("memory answers"), Renewal::Lost);
    assert_eq!(a.release(&held).await.expect("memory answers"), Release::NotHeld);
}

#[tokio::test]
async fn a_fixed_lease_is_not_made_longer_by_anything() {
    let (server, clock) = server(MemoryOptions::default());
    let (a, b) = (client(&server), client(&server));
    let fixed = claim("x").fixed();
    assert!(takes(&a, &fixed).await);
    let start = clock.now();
    clock.advance(TTL / 2);
    let Attempt::Granted(again) = a.try_acquire(&fixed).await.expect("memory answers") else { panic!("held") };
    assert_eq!(again.valid_from, start);
    let renewed = a.renew(&fixed).await.expect("memory answers");
    assert_eq!(renewed, Renewal::Renewed { ttl: TTL, valid_from: start });
    clock.advance(TTL / 2);
    assert!(takes(&b, &claim("x")).await);
}

#[tokio::test]
async fn a_waiter_gets_the_name_when_the_lease_in_front_ends() {
    let (server, clock) = server(MemoryOptions::default());
    let (a, b) = (client(&server), client(&server));
    let mut held = claim("x");
    held.ttl = TTL / 3;
    assert!(takes(&a, &held).await);
    // Its re-check lies behind the end of the lease in front.
    let mut waiting = claim("x").queueing();
    waiting.ttl = TTL * 10;
    assert!(queues(&b, &waiting).await);
    let woken = tokio::spawn({
        let (b, waiting) = (b.clone(), waiting.clone());
        async move { b.wait(&waiting).await }
    });
    settle().await;
    clock.advance(held.ttl - Duration::from_nanos(1));
    settle().await;
    assert!(!woken.is_finished());
    clock.advance(Duration::from_nanos(1));
    assert!(matches!(woken.await.expect("no panic").expect("memory answers"), Wake::Retry));
    assert!(takes(&b, &waiting).await);
}

#[tokio::test]
async fn a_waiter_that_does_not_stir_for_its_ttl_is_skipped() {
    let (server, clock) = server(MemoryOptions::default());
    let (a, b, c) = (client(&server), client(&server), client(&server));
    let held = claim("x");
    let (frozen, lively) = (claim("x").queueing(), claim("x").queueing());
    assert!(takes(&a, &held).await);
    assert!(queues(&b, &frozen).await);
    assert!(queues(&c, &lively).await);
    for _ in 0..3 {
        clock.advance(TTL / 2);
        assert!(matches!(a.renew(&held).await.expect("memory answers"), Renewal::Renewed { .. }));
        assert!(queues(&c, &lively).await);
    }
    a.release(&held).await.expect("memory answers");
    assert!(matches!(c.wait(&lively).await.expect("memory answers"), Wake::Granted(_)));
    assert_eq!(b.release(&frozen).await.expect("memory answers"), Release::NotHeld);
}

#[tokio::test]
async fn a_heartbeat_keeps_a_session_and_all_its_holds() {
    let (server, clock) = server(MemoryOptions::default().liveness(MemoryLiveness::Session));
    let (a, b) = (client(&server), client(&server));
    assert!(takes(&a, &claim("x")).await);
    for _ in 0..20 {
        settle().await;
        clock.advance(TTL / 3);
    }
    settle().await;
    assert!(!takes(&b, &claim("x")).await);
    a.link().silence();
    clock.advance(TTL);
    assert!(takes(&b, &claim("x")).await);
}

#[tokio::test]
async fn the_end_of_a_session_is_told_by_the_next_heartbeat() {
    let (server, clock) = server(MemoryOptions::default().liveness(MemoryLiveness::Session));
    let a = client(&server);
    let held = claim("x");
    let Attempt::Granted(grant) = a.try_acquire(&held).await.expect("memory answers") else { panic!("free") };
    let Liveness::Session(watch) = grant.liveness else { panic!("a session keeps it") };
    a.end_session();
    settle().await;
    assert_eq!(watch.lost(), None);
    clock.advance(TTL / 3);
    settle().await;
    assert_eq!(watch.lost(), Some(LostReason::SessionEnded));
    let error = a.try_acquire(&held).await.expect_err("a claim of an earlier session");
    assert_eq!(error.kind(), ErrorKind::SessionChanged);
    assert!(takes(&a, &claim("x")).await);
}

#[tokio::test]
async fn a_new_claim_on_an_ended_session_is_tried_by_a_new_one() {
    let (server, _clock) = server(MemoryOptions::default().liveness(MemoryLiveness::Session));
    let a = client(&server);
    assert!(takes(&a, &claim("x")).await);
    a.end_session();
    // The client learns of the end by this very call.
    assert!(takes(&a, &claim("x")).await);
}

#[tokio::test]
async fn a_silent_link_ends_calls_at_their_limit_and_delivers_them_later() {
    let (server, clock) = server(MemoryOptions::default());
    let a = client(&server);
    let held = claim("x");
    a.link().silence();
    let call = tokio::spawn({
        let (a, held) = (a.clone(), held.clone());
        async move { a.try_acquire(&held).await }
    });
    settle().await;
    clock.advance(Duration::from_secs(5));
    let error = call.await.expect("no panic").expect_err("nothing came back");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::Unknown));
    assert_eq!(server.entries(&Namespace::default(), &held.name), 0);
    a.link().heal();
    assert_eq!(server.entries(&Namespace::default(), &held.name), 1);
}

#[tokio::test]
async fn without_order_a_newcomer_may_overtake() {
    let (server, _clock) = server(MemoryOptions::default().queue(Queueing::Unordered));
    let (a, b, c) = (client(&server), client(&server), client(&server));
    let (held, waiting) = (claim("x"), claim("x").queueing());
    assert!(takes(&a, &held).await);
    assert!(queues(&b, &waiting).await);
    a.release(&held).await.expect("memory answers");
    assert!(takes(&c, &claim("x")).await);
    assert!(queues(&b, &waiting).await);
}

#[tokio::test]
async fn a_restart_loses_everything() {
    for liveness in [MemoryLiveness::Lease, MemoryLiveness::Session] {
        let (server, _clock) = server(MemoryOptions::default().liveness(liveness));
        let (a, b) = (client(&server), client(&server));
        let held = claim("x");
        assert!(takes(&a, &held).await);
        server.restart();
        assert_eq!(a.renew(&held).await.expect("memory answers"), Renewal::Lost);
        assert!(takes(&b, &claim("x")).await);
        assert_eq!(server.last_token(), 1);
    }
}

#[tokio::test]
async fn a_server_that_nobody_uses_keeps_nothing() {
    let (server, _clock) = server(MemoryOptions::default());
    let a = client(&server);
    for n in 0..1000 {
        let held = claim(&format!("name-{n}"));
        assert!(takes(&a, &held).await);
        a.release(&held).await.expect("memory answers");
    }
    assert!(!format!("{server:?}").contains("name-"));
}

/// B44: a holder that is paused between reading and writing for longer than its lease.
#[tokio::test]
async fn a_paused_holder_writes_in_vain() {
    let (server, clock) = server(MemoryOptions::default());
    let (a, b, register) = (client(&server), client(&server), server.register(Namespace::default()));
    let token = async |lock: &MemoryLock, claim: &Claim| match lock.try_acquire(claim).await {
        Ok(Attempt::Granted(grant)) => grant.token.expect("memory has tokens"),
        other => panic!("{other:?} where the name is free"),
    };
    let (first, second) = (claim("x"), claim("x"));
    let old = token(&a, &first).await;
    assert_eq!(register.read(&first.name).await.expect("memory answers").version, Version::ABSENT);
    clock.advance(TTL);
    let new = token(&b, &second).await;
    let next = register.write(&first.name, b"next", new, Version::ABSENT).await.expect("memory answers");
    assert!(matches!(next, Write::Written { .. }), "{next:?}");
    let late = register.write(&first.name, b"late", old, Version::ABSENT).await.expect("memory answers");
    assert_eq!(late, Write::StaleToken { stored: new });
}

/// A write that is still on its way when its writer has given up lands later, and only if nobody wrote meanwhile.
#[tokio::test]
async fn a_delayed_write_lands_once_or_never() {
    let (server, clock) = server(MemoryOptions::default());
    let (late, other) = (server.register(Namespace::default()), server.register(Namespace::default()));
    let name = LockName::new("x").expect("a name");
    let token = lockyard_api::FencingToken::from_server(1).expect("small");
    for overtaken in [false, true] {
        let found = other.read(&name).await.expect("memory answers");
        late.link().silence();
        let sent = late.write(&name, b"late", token, found.version);
        let given_up = async {
            settle().await;
            clock.advance(TTL);
        };
        let (answer, ()) = tokio::join!(sent, given_up);
        let error = answer.expect_err("no answer");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::Unknown));
        if overtaken {
            let written = other.write(&name, b"other", token, found.version).await.expect("memory answers");
            assert!(matches!(written, Write::Written { .. }));
        }
        late.link().heal();
        let value = other.read(&name).await.expect("memory answers").value.expect("written");
        assert_eq!(value == b"late", !overtaken);
    }
}
