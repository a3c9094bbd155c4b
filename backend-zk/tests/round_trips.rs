//! What one acquisition and one release cost, as the server counts it.

mod common;

use common::{LONG, busy, claim, granted, name};
use lockyard_api::{DistributedLock, FencedRegister, FencingToken, Release, Version, Write};
use lockyard_testbed::{Options, Requests};
use lockyard_zk::ZkRegister;
use lockyard_zk::testing::ZkHarness;

/// The pings of the driver and our heartbeat: they depend on time, not on what is done.
const HEARTBEAT: &[&str] = &["ping", "sync", "getEphemerals"];

async fn cost(harness: &ZkHarness, earlier: &Requests) -> Vec<(String, u64)> {
    let server = harness.server().expect("its own");
    let since = server.requests().await.expect("it counts").since(earlier);
    since.iter().filter(|(method, _)| !HEARTBEAT.contains(method)).map(|(method, n)| (method.to_owned(), n)).collect()
}

fn requests(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter().map(|(method, n)| ((*method).to_owned(), *n)).collect()
}

#[tokio::test]
async fn an_acquisition_is_one_flight_of_two_and_a_release_is_one() {
    let Some(harness) = common::start(Options::new().counting()).await else { return };
    let server = harness.server().expect("its own");
    let ((holder, _h), (other, _o)) = (common::client(&harness, LONG).await, common::client(&harness, LONG).await);
    let name = name();
    let first = claim(&name);
    granted(holder.try_acquire(&first).await);
    holder.release(&first).await.expect("an answer");

    let again = claim(&name);
    let before = server.requests().await.expect("it counts");
    granted(holder.try_acquire(&again).await);
    assert_eq!(cost(&harness, &before).await, requests(&[("create2", 1), ("getChildren", 1)]));

    // A refusal costs the node that was made for it.
    let before = server.requests().await.expect("it counts");
    busy(other.try_acquire(&claim(&name)).await);
    assert_eq!(cost(&harness, &before).await, requests(&[("create2", 1), ("delete", 1), ("getChildren", 1)]));

    let before = server.requests().await.expect("it counts");
    assert_eq!(holder.release(&again).await.expect("an answer"), Release::Released);
    assert_eq!(cost(&harness, &before).await, requests(&[("delete", 1)]));

    // A new name: the directory is made in the flight that is repeated. B125: a container, which the server removes when
    // it has been empty for a while.
    let before = server.requests().await.expect("it counts");
    let fresh = claim(&common::name());
    granted(holder.try_acquire(&fresh).await);
    let flights = requests(&[("create2", 2), ("createContainer", 1), ("getChildren", 2)]);
    assert_eq!(cost(&harness, &before).await, flights);

    // Nothing is left, so nothing is asked.
    let before = server.requests().await.expect("it counts");
    assert_eq!(holder.release(&again).await.expect("an answer"), Release::NotHeld);
    assert_eq!(cost(&harness, &before).await, []);
}

#[tokio::test]
async fn a_register_is_one_flight_each_way() {
    let Some(harness) = common::start(Options::new().counting()).await else { return };
    let server = harness.server().expect("its own");
    let register = ZkRegister::connect(harness.config().clone()).await.expect("connects");
    // A sync of ours counts here.
    let cost = async |earlier: &Requests| {
        let since = server.requests().await.expect("it counts").since(earlier);
        let counted = since.iter().filter(|(method, _)| *method != "ping").map(|(method, n)| (method.to_owned(), n));
        counted.collect::<Vec<_>>()
    };
    let (name, token) = (name(), FencingToken::new(768).expect("small"));
    let written = |answer: lockyard_api::Result<Write>| match answer.expect("an answer") {
        Write::Written { version } => version,
        other => panic!("{other:?}"),
    };
    let before = server.requests().await.expect("it counts");
    let mut version = written(register.write(&name, b"1", token, Version::ABSENT).await);
    assert_eq!(cost(&before).await, requests(&[("create2", 1)]));
    for value in [b"2", b"3"] {
        let before = server.requests().await.expect("it counts");
        version = written(register.write(&name, value, token, version).await);
        assert_eq!(cost(&before).await, requests(&[("setData", 1)]));
    }
    let before = server.requests().await.expect("it counts");
    let found = register.read(&name).await.expect("an answer");
    assert_eq!(cost(&before).await, requests(&[("getData", 1), ("sync", 1)]));
    assert_eq!(found.version, version);

    // Who knows only the version has to ask for its token.
    let other = ZkRegister::connect(harness.config().clone()).await.expect("connects");
    let before = server.requests().await.expect("it counts");
    written(other.write(&name, b"4", token, version).await);
    assert_eq!(cost(&before).await, requests(&[("getData", 1), ("setData", 1), ("sync", 1)]));
}
