//! etcd: the write is made only while the lock's own key is there.

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use lockyard::etcd::KeySpace;
use lockyard::{Guard, Namespace};
use lockyard_testbed::Service;

use crate::support::{Checked, paused_and_next, server};

/// Whether the report was saved: only while this very grant stands at the server.
async fn save(etcd: &mut Client, guard: &Guard, body: &str) -> Result<bool, etcd_client::Error> {
    let Some(token) = guard.fencing_token() else { return Ok(false) };
    let created = token.server_number().cast_signed(); // the revision that created the lock's key
    let key = KeySpace::new("", &Namespace::default()).lock(guard.name()).key(guard.claim().owner);
    let stands = Compare::create_revision(key, CompareOp::Equal, created);
    let txn = Txn::new().when([stands]).and_then([TxnOp::put("report/monday", body, None)]);
    Ok(etcd.txn(txn).await?.succeeded())
}

#[tokio::test]
async fn a_late_holder_changes_no_key() -> Checked {
    let Some(server) = server(Service::Etcd).await? else { return Ok(()) };
    let (paused, next) = paused_and_next(&server.lock_url(), "report").await?;
    let mut etcd = Client::connect([server.url()], None).await?;

    assert!(save(&mut etcd, &next, "next").await?);
    assert!(!save(&mut etcd, &paused, "late").await?);
    let found = etcd.get("report/monday", None).await?;
    assert_eq!(found.kvs().first().map(|pair| pair.value().to_vec()), Some(b"next".to_vec()));
    Ok(())
}
