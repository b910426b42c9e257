//! Network paths that change and die: other ports and addresses in mid-session, smaller datagrams, forgotten mappings, silence in one
//! direction or both, relays that never answer.

mod dead;
mod mtu;
mod nat;
mod rebinding;
mod setup;
mod silent;
