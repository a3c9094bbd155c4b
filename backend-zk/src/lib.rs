//! ZooKeeper backend: ephemeral sequential nodes.
