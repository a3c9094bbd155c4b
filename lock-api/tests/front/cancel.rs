use std::time::Duration;

use lockyard_api::{Clock, Locker};

use crate::support::{NAME, Polled, client, entries, eventually, locker, over, poll_times, server, session_server};

/// Acquires are dropped after every number of polls, by many tasks at once; nothing is left and the next one gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_at_any_poll_nothing_is_left() {
    for server in [server(&Clock::system()), session_server(Duration::from_secs(10))] {
        let rival = locker(&server);
        let mut tasks = Vec::new();
        for task in 0..6_u64 {
            let locks = Locker::builder(client(&server)).local_queue(task % 2 == 0).build().expect("runtime");
            tasks.push(tokio::spawn(async move {
                let mut rng = fastrand::Rng::with_seed(task);
                for _ in 0..150 {
                    let acquire = locks.lock(NAME).acquire();
                    match poll_times(acquire, rng.usize(0..6)).await {
                        Polled::Ended(guard) => drop(guard.expect("acquired")),
                        Polled::Unfinished(acquire) => drop(acquire),
                    }
                    if rng.bool() {
                        tokio::task::yield_now().await;
                    }
                }
                // Not before the releases that it owes: the end of a client ends what it has.
                locks.shutdown().await.expect("drained");
            }));
        }
        for task in tasks {
            task.await.expect("no task fails");
        }
        eventually("nothing is left", || entries(&server, NAME) == 0).await;
        rival.lock(NAME).wait(Duration::from_secs(1)).acquire().await.expect("free").release().await.expect("released");
    }
}

/// A write that its caller neither polls nor drops is driven to its end by the front end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_nobody_polls_is_adopted() {
    let server = server(&Clock::system());
    let client = client(&server);
    let locks = over(client.clone(), &Clock::system());
    client.link().silence();
    let Polled::Unfinished(acquire) = poll_times(locks.acquire(NAME), 1).await else { panic!("the link is silent") };
    client.link().heal();
    eventually("the request went on without its caller", || entries(&server, NAME) == 1).await;
    let guard = acquire.await.expect("its caller comes back for the result");
    assert!(guard.is_held());
    guard.release().await.expect("released");
    assert_eq!(entries(&server, NAME), 0);
}

/// B15: the reply to an acquire is lost; the claim is undone by owner.
#[tokio::test]
async fn a_lost_reply_leaves_nothing() {
    let server = server(&Clock::system());
    let client = client(&server);
    let locks = over(client.clone(), &Clock::system());
    client.link().swallow_reply();
    let error = locks.try_acquire(NAME).await.expect_err("the reply is lost");
    assert_eq!(error.outcome(), lockyard_api::Outcome::Unknown, "{error}");
    eventually("undone", || entries(&server, NAME) == 0).await;
}

/// B10: a release whose request or reply is lost is repeated.
#[tokio::test]
async fn a_lost_release_is_repeated() {
    let server = server(&Clock::system());
    let client = client(&server);
    let locks = over(client.clone(), &Clock::system());
    let guard = locks.acquire(NAME).await.expect("acquired");
    client.link().silence();
    let error = guard.release().await.expect_err("silence");
    assert_eq!(error.outcome(), lockyard_api::Outcome::Unknown, "{error}");
    client.link().heal();
    eventually("released", || entries(&server, NAME) == 0).await;
    let guard = locks.acquire(NAME).await.expect("acquired");
    drop(guard);
    eventually("released by the drop", || entries(&server, NAME) == 0).await;
}
