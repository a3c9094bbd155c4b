//! Redis backend: SET NX PX in Lua, a FIFO queue with hand-over, pub/sub wake-up.
