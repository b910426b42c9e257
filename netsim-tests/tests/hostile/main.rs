//! Attacks on the whole product: a network and a relay that lie, strangers, and kills at the worst moment.

mod agent;
mod demo;
mod kills;
mod lying_relay;
mod network;
mod strangers;
