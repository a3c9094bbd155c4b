//! Who holds a lock, as its directory tells.

use lockyard_api::{Error, FencingToken, Holder, Result};
use zookeeper_client::Error as Driver;

use crate::error;
use crate::node;
use crate::session::Live;

/// What a node holds: where its maker runs, and the label. Nothing is decided by it.
pub(crate) fn data(origin: &str, label: Option<&str>) -> Vec<u8> {
    let mut data = origin.as_bytes().to_vec();
    if let Some(label) = label {
        data.push(b'\n');
        data.extend_from_slice(label.as_bytes());
    }
    data
}

/// The holder of the lock with this directory.
pub(crate) async fn holder(live: &Live, directory: &str) -> Result<Option<Holder>> {
    let failed = |error: Driver| -> Error {
        live.note(&error);
        error::of_driver(error, &format!("looking at {directory}"))
    };
    loop {
        let sync = live.client.sync(directory);
        let list = live.client.list_children(directory);
        let (sync, children) = (sync.await, list.await);
        sync.map_err(failed)?;
        let children = match children {
            Err(Driver::NoNode) => return Ok(None),
            children => children.map_err(failed)?,
        };
        let queue = node::queue(&children);
        let Some(first) = queue.first() else { return Ok(None) };
        let path = format!("{directory}/{first}");
        let (data, stat) = match live.client.get_data(&path).await {
            // It has gone meanwhile, and somebody else holds the lock, or nobody.
            Err(Driver::NoNode) => continue,
            answer => answer.map_err(failed)?,
        };
        let text = String::from_utf8_lossy(&data);
        let (origin, label) = text.split_once('\n').map_or((&*text, None), |(origin, label)| (origin, Some(label)));
        let mut holder = Holder::new();
        holder.owner = node::owner_in(&path);
        holder.token = u64::try_from(stat.czxid).ok().and_then(|czxid| FencingToken::from_server(czxid).ok());
        holder.label = label.map(Into::into);
        holder.origin = Some(format!("{origin}, session {:#x}", stat.ephemeral_owner));
        holder.waiters = u64::try_from(queue.len() - 1).ok();
        return Ok(Some(holder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_hold_anything() {
        assert_eq!(data("host/7", None), b"host/7");
        assert_eq!(data("host/7", Some("a\nb")), b"host/7\na\nb");
    }
}
