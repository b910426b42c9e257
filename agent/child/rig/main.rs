//! The program that the tests start again as the child.

fn main() {
    noderelay_child::child_main()
}
