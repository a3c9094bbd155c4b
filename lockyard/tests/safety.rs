//! The resources of docs/safety.md: each refuses a holder that was paused for longer than its lease (B44).

#[path = "safety/etcd.rs"]
mod etcd;
#[path = "safety/http.rs"]
mod http;
#[path = "safety/page.rs"]
mod page;
#[path = "safety/redis.rs"]
mod redis;
#[path = "safety/register.rs"]
mod register;
#[path = "safety/sql.rs"]
mod sql;
mod support;
