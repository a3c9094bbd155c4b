//! Crowds of clients in processes of their own, on every server. The full counts are ignored tests: docs/caught.md says how to run them.
#![cfg(feature = "lab")]

#[path = "crowds/dead_holders.rs"]
mod dead_holders;
#[path = "crowds/first_use.rs"]
mod first_use;
#[path = "../src/lab/chaos/puppet/mod.rs"]
#[allow(dead_code, reason = "the chaos command uses the rest")]
mod puppet;
#[path = "crowds/shares.rs"]
mod shares;
#[path = "crowds/stage.rs"]
mod stage;
mod support;

use lockyard_testbed::Service;
use stage::Site;

const SERIALIZABLE: &[&str] = &["-c", "default_transaction_isolation=serializable"];

macro_rules! on_each_server {
    ($($name:ident: $service:ident $query:literal $args:expr, $gone:ident),+ $(,)?) => {$(
        mod $name {
            use super::*;

            const SITE: Site = Site { service: Service::$service, query: $query, args: $args };

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "a crowd: minutes"]
            async fn five_hundred_names_are_first_used_by_64_at_once() {
                first_use::run(SITE, 500).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "a crowd: half a minute"]
            async fn fifty_dead_holders_are_followed_neither_early_nor_late() {
                dead_holders::run(SITE, dead_holders::Gone::$gone, 50).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "a crowd: a minute"]
            async fn ten_clients_share_a_name_for_a_minute() {
                shares::run(SITE, std::time::Duration::from_secs(60)).await;
            }
        }
    )+};
}

// A session lock of Postgres ends with the connection of a process that dies: there the holder is cut off.
on_each_server! {
    redis: Redis "" &[], Killed,
    postgres_advisory: Postgres "lock=advisory&" &[], CutOff,
    postgres_row: Postgres "lock=row&" &[], CutOff,
    postgres_lease: Postgres "lock=lease&" &[], Killed,
    etcd: Etcd "" &[], Killed,
    zookeeper: Zookeeper "" &[], Killed,
}

/// B13 where a role's transactions are serializable unless they say otherwise.
mod serializable {
    use super::*;

    const fn site(query: &'static str) -> Site {
        Site { service: Service::Postgres, query, args: SERIALIZABLE }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "a crowd: minutes"]
    async fn advisory() {
        first_use::run(site("lock=advisory&"), 500).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "a crowd: minutes"]
    async fn row() {
        first_use::run(site("lock=row&"), 500).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "a crowd: minutes"]
    async fn lease() {
        first_use::run(site("lock=lease&"), 500).await;
    }

    /// A few names, with every other test: in processes of their own nothing but the server decides.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_few_names_are_first_used_by_64_at_once() {
        first_use::run(site("lock=lease&"), 5).await;
    }
}
