//! Servers that elect a leader, and the links between them.

use std::time::Duration;

use lockyard_testbed::timing::eventually;
use lockyard_testbed::{Ensemble, Mode, Server, Service, StartError, require};

const LIMIT: Duration = Duration::from_secs(30);

/// `None` when the service is absent and not required.
async fn three(service: Service) -> Option<Ensemble> {
    match Ensemble::start(service, 3).await {
        Ok(ensemble) => Some(ensemble),
        Err(StartError::Absent(absent)) if !require::required(service) => {
            eprintln!("SKIPPED: {absent}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

async fn serves(server: &Server) -> bool {
    server.answers(Duration::from_secs(1)).await
}

async fn another_leads_when_the_leader_is_killed(service: Service) {
    let Some(ensemble) = three(service).await else { return };
    assert_eq!(ensemble.lock_url().split(',').count(), 3);
    let first = ensemble.leader().await.expect("a leader");
    ensemble.servers()[first].kill().await.expect("ours");
    let second = ensemble.leader().await.expect("another leader");
    assert_ne!(first, second);
    ensemble.servers()[first].restart().await.expect("it joins again");
    assert!(serves(&ensemble.servers()[first]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_elects_another_leader() {
    another_leads_when_the_leader_is_killed(Service::Etcd).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_elects_another_leader() {
    another_leads_when_the_leader_is_killed(Service::Zookeeper).await;
}

/// Cut off from its leader a ZooKeeper follower stops serving once it notices, and serves again afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_can_be_cut_off_from_its_leader() {
    let Some(ensemble) = three(Service::Zookeeper).await else { return };
    let leader = ensemble.leader().await.expect("a leader");
    let follower = (leader + 1) % 3;
    let link = ensemble.link(follower, leader).expect("between two members");
    link.set(Mode::Hold).await;
    let silent = eventually(LIMIT, || async { !serves(&ensemble.servers()[follower]).await }).await;
    assert!(silent.is_some(), "it served on without its leader");
    assert_eq!(ensemble.leader().await, Some(leader));
    link.set(Mode::Pass).await;
    let back = eventually(LIMIT, || async { serves(&ensemble.servers()[follower]).await }).await;
    assert!(back.is_some(), "it never served again");
}

#[tokio::test]
async fn a_service_without_elections_has_no_ensemble() {
    let error = Ensemble::start(Service::Redis, 3).await.expect_err("it elects no leader");
    assert!(matches!(&error, StartError::Absent(absent) if absent.reason.contains("elect")), "{error}");
}
