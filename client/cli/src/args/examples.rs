//! The examples under each command's help, in lines of at most 98 characters (longer ones would be wrapped). A test parses
//! every one of them.

pub const ALL: &str = "\
Examples:
  noderelay demo                                  a shell on this machine, through a throw-away relay
  noderelay --via-relay gpu-7                     a shell on node gpu-7 through the relays
  noderelay --via-relay gpu-7 -- nvidia-smi -L    one command; its exit code is returned
  tar c etc | noderelay --via-relay gpu-7 -- tar x -C /tmp
  noderelay doctor gpu-7                          what is missing for a shell there, and how to get it

Exit codes: the remote command's own; 128+n when signal n ended it; 255 for every failure of NodeRelay itself
(--status FILE tells which). Other commands: 0 good, 1 a finding or a failure, 2 usage, 141 nobody reads the output.";

pub const SHELL: &str = "\
Words after NODE belong to the remote command and reach it exactly as given, one by one.
Local keys at the start of a line: ~. leave, ~s status, ~? help, ~~ a tilde.

Examples:
  noderelay --via-relay gpu-7                              a login shell
  noderelay --via-relay gpu-7 -- grep -c MemTotal /proc/meminfo
  noderelay --via-relay -c 'dmesg|tail' gpu-7              a line for the login shell
  noderelay --via-relay -t gpu-7 -- top                    one command on a terminal
  noderelay --via-relay --reason 'INC-42' gpu-7            a reason, for the record
  noderelay --via-relay --no-warm gpu-7                    dial, also when a warm process runs
  noderelay --via-relay --status out.json gpu-7 -- true    how it ended, for programs";

#[cfg(feature = "demo")]
pub const DEMO: &str = "\
Examples:
  noderelay demo                 a shell on this machine
  noderelay demo -- uname -a     one command
  noderelay demo --up fleet      keep relay and agent; then, in a second terminal:
  noderelay --config fleet/config.yaml --via-relay local";

pub const WARM: &str = "\
Sessions use it by themselves while it runs; --no-warm, or warm: none in the configuration, leaves it aside. It is your own
process, for this configuration alone, and each session is decided by the node as ever. A first session to a node then takes
two round trips instead of three, the next ones take one.

Examples:
  noderelay warm --for 8h         for a shift; again later: for longer
  noderelay warm status           relays, nodes, time left
  noderelay warm stop";

pub const WARM_STOP: &str = "\
Examples:
  noderelay warm stop";

pub const WARM_STATUS: &str = "\
Exit code: 0 when it runs, else 1.

Examples:
  noderelay warm status
  noderelay warm status -o json";

pub const DOCTOR: &str = "\
Exit code: 0 when nothing failed, else 1.

Examples:
  noderelay doctor                    certificate and bundle
  noderelay doctor gpu-7              and the way to the node, and what its policy says
  noderelay doctor gpu-7 -o json      for programs";

pub const WHOAMI: &str = "\
Exit code: 0 when the fleet file accepts the certificate, else 1.

Examples:
  noderelay whoami
  noderelay whoami -o json";

pub const REPLAY: &str = "\
Output goes to standard output, everything else to standard error. Nothing in it can touch the terminal.

Examples:
  noderelay replay SESSION.cast                         at its own pace
  noderelay replay --idle 1 --speed 4 SESSION.cast      fast, no pause above a second
  noderelay --quiet replay --no-wait SESSION.cast       the output alone, at once";

pub const KEY_CREATE: &str = "\
Examples:
  noderelay key create keys/alice      keys/alice stays with its owner, keys/alice.pub travels";

pub const KEY_SHOW: &str = "\
Examples:
  noderelay key show keys/alice";

pub const PKI_INIT: &str = "\
Examples:
  noderelay pki init ca --trust-domain example.org --cluster lab";

pub const PKI_ISSUE: &str = "\
Examples:
  noderelay pki issue --ca ca --relay relay-1 --out relay/relay
  noderelay pki issue --ca ca --node gpu-7 --out agent/node
  noderelay pki issue --ca ca --user alice --group oncall --valid-for 8h --out client/user";

pub const PKI_INSPECT: &str = "\
Examples:
  noderelay pki inspect client/user.crt";

pub const POLICY_INIT: &str = "\
Examples:
  noderelay policy init policy --trust-domain example.org --root-key root.pub \\
    --signer alice.pub --signer bob.pub --threshold 2 --pipeline pipeline.pub \\
    --cluster lab=ca/ca.pem --relay lab/relay-1=192.0.2.1:7443";

pub const POLICY_EXPLAIN: &str = "\
The answer is the one of a node that has this policy: it comes from the same code.
Exit code: 0 permitted, 1 denied.

Examples:
  noderelay policy explain policy --user alice --group oncall --cluster lab --node gpu-7 \\
    --action shell
  noderelay policy explain policy --user alice --group oncall --cluster lab --node gpu-7 \\
    --action shell --profile root --with-grant --reason INC-42
  noderelay policy explain published --user bob --cluster lab --node gpu-7 --action exec \\
    --at 2030-01-31T08:00:00Z -o json";

pub const POLICY_TEST: &str = "\
Exit code: 0 when every answer is as expected, else 1.

Examples:
  noderelay policy test policy                            every table in policy/tests
  noderelay policy test policy --junit policy-tests.xml   for a build server, too";

pub const POLICY_LINT: &str = "\
Exit code: 0 without a finding of level error (with --strict: without any), else 1.

Examples:
  noderelay policy lint policy
  noderelay policy lint policy --strict --days 30
  noderelay policy lint published -o json";

pub const POLICY_DIFF: &str = "\
It compares answers, not texts: a rule that is renamed, or split in two, changes nothing. Exit code: 0.

Examples:
  noderelay policy diff published policy            what signing this would change
  noderelay policy diff published policy -o json";

pub const POLICY_SIGN: &str = "\
Examples:
  noderelay policy sign policy --role root --key keys/root      keys and thresholds
  noderelay policy sign policy --key keys/alice                 the content";

pub const POLICY_PUBLISH: &str = "\
Examples:
  noderelay policy publish policy --key keys/pipeline --to published      hourly, too";

pub const POLICY_VERIFY: &str = "\
Without --root the publication's own first root is taken: that shows that it is whole, not whose it is.

Examples:
  noderelay policy verify published
  noderelay policy verify published --root root.json -o json";

pub const CHECK_CONFIG: &str = "\
Examples:
  noderelay check-config
  noderelay --config demo/config.yaml check-config";

pub const COMPLETION: &str = "\
Examples:
  noderelay completion bash > ~/.local/share/bash-completion/completions/noderelay";
