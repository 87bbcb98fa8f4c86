//! What may be written after `wayside`.

use crate::config::{LONGEST_LEASE, SHORTEST_LEASE, Settings, Shown};
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;
use wayside_client::credentials::CREDENTIALS_VARIABLE;
use wayside_client::{ENDPOINTS_VARIABLE, Endpoint, Endpoints, Version};
use wayside_protocol::Priority;

/// Microsecond locks, decided by a switch on the packets' way
#[derive(Debug, Parser)]
#[command(name = "wayside", version, about, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Least level of the messages on stderr: off, error, warn, info, debug, trace
    #[arg(long, global = true, env = "WAYSIDE_LOG", value_name = "LEVEL", default_value = "warn")]
    pub log: tracing_subscriber::filter::LevelFilter,

    /// How those messages look
    #[arg(long, global = true, env = "WAYSIDE_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a switch to develop against: on loopback, without root, without a configuration
    Dev(Box<Settings>),
    /// Run a switch
    Switch(Box<SwitchArgs>),
    /// Run a command while holding a lock
    #[command(after_help = LOCK_EXIT_CODES)]
    Lock(LockArgs),
    /// Read and write keys: small values that switches keep
    #[command(subcommand, after_help = KV_EXIT_CODES)]
    Kv(Kv),
    /// Run a command as one of so many at a time
    #[command(after_help = RECIPE_EXIT_CODES)]
    Semaphore(SemaphoreArgs),
    /// Elect a leader, and see who leads
    #[command(subcommand, after_help = RECIPE_EXIT_CODES)]
    Election(ElectionCommand),
    /// Join a group, and see who is there
    #[command(subcommand, after_help = RECIPE_EXIT_CODES)]
    Group(GroupCommand),
    /// Wait until so many are there
    #[command(after_help = RECIPE_EXIT_CODES)]
    Barrier(BarrierArgs),
    /// Show and change which switches keep which keys
    #[command(subcommand)]
    Chain(Chain),
    /// Show, add and drain the shards that locks are divided among, while locks are held
    #[command(subcommand)]
    Shard(ShardCommand),
    /// List the locks that are held and awaited, by whom and since when
    Locks(LocksArgs),
    /// Show which locks have their queue in the switch and which are the lock server's, why, and which are to move
    Plan(QueryArgs),
    /// Look for deadlocks: tasks that wait for each other's locks in a circle
    Deadlocks(QueryArgs),
    /// Show the switch, its sessions and its packet counters
    Status(QueryArgs),
    /// Have the switch read its configuration's file again: namespaces' budgets, policies and patience may change, and
    /// further ones come
    Reload(QueryArgs),
    /// Check what this host offers Wayside, and say what to do about it
    Doctor(DoctorArgs),
    /// Let hosts join a switch whose packets are signed
    #[command(subcommand)]
    Node(Node),
    /// Measure Wayside on this machine, beside a bare echo and Redis
    #[command(subcommand)]
    Bench(Bench),
    /// Try to break Wayside: its own core and protocol in a world of faults that a seed decides, watched by checkers
    #[command(max_term_width = 100)]
    Sim(Box<wayside_sim::command::Sim>),
}

#[derive(Debug, Subcommand)]
pub enum Kv {
    /// Write a key's value to standard output, and a newline
    Get(KvGet),
    /// Give a key a value
    Put(KvPut),
    /// Give a key a value if it has the one that is expected: compare and swap
    Cas(KvCas),
    /// Take a key's value away
    Del(KvDelete),
    /// List keys
    Ls(KvList),
    /// Write a line for whatever a key gets, or all keys whose names begin so, as it happens
    Watch(KvWatch),
}

#[derive(Debug, Subcommand)]
pub enum Chain {
    /// Show the switches, and each group's chain
    Status(QueryArgs),
    /// Let a switch have its share of the groups, as every new one has
    Add(ChainSwitchArgs),
    /// Let all groups leave a switch: it can be ended then without any key's having one switch less
    Remove(ChainSwitchArgs),
    /// Let groups begin anew, empty, of which no switch has left what they had
    Recover(QueryArgs),
}

#[derive(Debug, Subcommand)]
pub enum ShardCommand {
    /// Show the shards, how far each has come with a change, and which sessions stand in its way
    Status(QueryArgs),
    /// Give a shard that was started with --shard-joins its share of the names
    Add(ShardAddArgs),
    /// Give the names of a shard to the others; then its switches can be ended
    Drain(ShardDrainArgs),
    /// Go on with a change that was left
    Resume(ShardChangeArgs),
    /// Take a change back that is not decided
    Undo(ShardChangeArgs),
}

#[derive(Debug, Args)]
pub struct ShardAddArgs {
    /// Its name, and where its switches are: NAME=HOST:PORT, several separated by commas
    #[arg(value_name = "NAME=HOST:PORT")]
    pub shard: String,

    #[command(flatten)]
    pub change: ShardChangeArgs,
}

#[derive(Debug, Args)]
pub struct ShardDrainArgs {
    /// Its name
    pub shard: String,

    #[command(flatten)]
    pub change: ShardChangeArgs,
}

#[derive(Debug, Args)]
pub struct ShardChangeArgs {
    /// Wait so long for the holders of names that change hands, who keep all others from these names, then take the
    /// change back; and for a shard that answers no more, then say what can be done
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub within: Duration,

    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

#[derive(Debug, Args)]
pub struct ChainSwitchArgs {
    /// Address of the switch, as `wayside chain status` shows it
    pub switch: SocketAddrV4,

    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

const RECIPE_EXIT_CODES: &str = "\
Exit codes: COMMAND's own, 0 done, 1 nobody leads, 64 bad arguments, 69 no switch or no store, 75 timed out, 76 the \
session was lost and COMMAND ended, 77 not allowed.";

/// Where, and how long.
#[derive(Debug, Args)]
pub struct RecipeArgs {
    /// Give up after this time [default: wait as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub wait: Option<Duration>,

    /// Namespace of the name
    #[arg(long, env = "WAYSIDE_NAMESPACE", value_name = "NAME", default_value = "default")]
    pub namespace: String,

    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

#[derive(Debug, Args)]
pub struct SemaphoreArgs {
    /// Name of the semaphore
    pub name: String,

    /// How many at a time: the same number for everybody, 1 to 1,024
    #[arg(long, value_name = "N")]
    pub permits: u32,

    #[command(flatten)]
    pub to: RecipeArgs,

    /// Command to run, which finds the number of its permit in WAYSIDE_PERMIT
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub enum ElectionCommand {
    /// Wait until this process leads, then run a command, and let others lead when it has ended
    Campaign(CampaignArgs),
    /// Print what the leader says of itself
    Leader(NameArgs),
    /// Print the leader whenever it is another
    Watch(NameArgs),
}

#[derive(Debug, Args)]
pub struct CampaignArgs {
    /// Name of the election
    pub name: String,

    /// What others are to know of the leader, up to 128 bytes [default: host and process id]
    #[arg(long)]
    pub value: Option<String>,

    #[command(flatten)]
    pub to: RecipeArgs,

    /// Command to run, which finds a token in WAYSIDE_ELECTION_TOKEN that is higher than every earlier leader's
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Be a member while a command runs
    Join(GroupJoinArgs),
    /// List the members
    Ls(GroupArgs),
    /// List the members whenever they have changed
    Watch(GroupArgs),
}

#[derive(Debug, Args)]
pub struct GroupJoinArgs {
    #[command(flatten)]
    pub group: GroupArgs,

    /// What others are to know of this member, up to 128 bytes [default: host and process id]
    #[arg(long)]
    pub value: Option<String>,

    /// Command to run, which finds its seat in WAYSIDE_SEAT
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct GroupArgs {
    /// Name of the group
    pub name: String,

    /// How many members there may be: the same number for everybody, 1 to 1,024
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub room: u32,

    #[command(flatten)]
    pub to: RecipeArgs,
}

#[derive(Debug, Args)]
pub struct BarrierArgs {
    /// Name of the barrier: good for one round
    pub name: String,

    /// How many have to come: the same number for everybody, 1 to 1,024
    #[arg(long, value_name = "N")]
    pub parties: u32,

    #[command(flatten)]
    pub to: RecipeArgs,
}

#[derive(Debug, Args)]
pub struct NameArgs {
    /// Name of the election
    pub name: String,

    #[command(flatten)]
    pub to: RecipeArgs,
}

const KV_EXIT_CODES: &str = "\
Exit codes: 0 done, 1 the key has no value, 64 bad arguments, 69 no switch or no store, 75 a condition did not hold or \
timed out, 76 the session was lost, 77 not allowed.";

/// Where, and how long.
#[derive(Debug, Args)]
pub struct KvArgs {
    /// Give up after this time [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub wait: Option<Duration>,

    /// Namespace of the key
    #[arg(long, env = "WAYSIDE_NAMESPACE", value_name = "NAME", default_value = "default")]
    pub namespace: String,

    #[command(flatten)]
    pub endpoint: EndpointArgs,

    /// How the answer looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct KvGet {
    /// Name of the key: 1 to 960 bytes; of several, what they had at one instant
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    #[command(flatten)]
    pub to: KvArgs,
}

#[derive(Debug, Args)]
pub struct KvPut {
    /// Name of the key: 1 to 960 bytes
    pub name: String,

    /// Its value, up to 128 bytes [default: standard input]
    pub value: Option<String>,

    #[command(flatten)]
    pub condition: ConditionArgs,

    #[command(flatten)]
    pub to: KvArgs,

    /// Command to run: the key has the value as long as that runs, and this process lives
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct KvCas {
    /// Name of the key: 1 to 960 bytes
    pub name: String,

    /// The value that it is to have
    pub expected: String,

    /// The value that it gets then, up to 128 bytes
    pub value: String,

    #[command(flatten)]
    pub to: KvArgs,
}

#[derive(Debug, Args)]
pub struct KvDelete {
    /// Name of the key: 1 to 960 bytes
    pub name: String,

    #[command(flatten)]
    pub condition: ConditionArgs,

    #[command(flatten)]
    pub to: KvArgs,
}

#[derive(Debug, Args)]
pub struct KvWatch {
    /// Name of the key; one that ends with / stands for all keys whose names begin so
    pub name: String,

    /// The name stands for all keys whose names begin so, whatever it ends with
    #[arg(long)]
    pub prefix: bool,

    /// End after so many lines
    #[arg(long, value_name = "LINES")]
    pub count: Option<u64>,

    /// End after this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub wait: Option<Duration>,

    /// Namespace of the keys
    #[arg(long, env = "WAYSIDE_NAMESPACE", value_name = "NAME", default_value = "default")]
    pub namespace: String,

    #[command(flatten)]
    pub endpoint: EndpointArgs,

    /// How a line looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

/// On what a write depends.
#[derive(Debug, Args)]
pub struct ConditionArgs {
    /// Only if the key has no value
    #[arg(long, conflicts_with = "if_version")]
    pub if_absent: bool,

    /// Only if this is the version of its value, as `put` and `get -o json` tell it
    #[arg(long, value_name = "VERSION")]
    pub if_version: Option<Version>,
}

#[derive(Debug, Args)]
pub struct KvList {
    /// List only names that begin so
    pub prefix: Option<String>,

    /// Namespace of the keys
    #[arg(long, env = "WAYSIDE_NAMESPACE", value_name = "NAME", default_value = "default")]
    pub namespace: String,

    #[command(flatten)]
    pub endpoint: EndpointArgs,

    /// How the answer looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, Subcommand)]
pub enum Node {
    /// Write a token that lets one host join, once: on the switch's host, as the daemon's user
    Token(TokenArgs),
    /// Let this host join, with a token; as root for root's processes, as any other user for that user's
    Join(JoinArgs),
    /// Renew this host's certificate, if a third or less of its time is left: as who keeps its credentials. Processes
    /// with a session do so by themselves
    Renew(RenewArgs),
    /// List the hosts that may enrol: on the switch's host, as the daemon's user
    List(StateArgs),
    /// Let a host enrol no more, and cut off its sessions: on the switch's host, as the daemon's user
    Remove(RemoveArgs),
    /// Be a namespace's lock server until a signal comes, where its locks are queues: of all names or of some of the
    /// parts that they are divided into; others stand by
    ServeLocks(ServeLocksArgs),
}

#[derive(Debug, Args)]
pub struct ServeLocksArgs {
    #[command(flatten)]
    pub endpoint: EndpointArgs,

    /// Namespace of the locks
    #[arg(long, env = "WAYSIDE_NAMESPACE", value_name = "NAME", default_value = "default")]
    pub namespace: String,
}

/// Whose hosts.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// State directory of the switch [default: $XDG_STATE_HOME/wayside, /var/lib/wayside as root]
    #[arg(long, env = "WAYSIDE_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(flatten)]
    pub state: StateArgs,

    /// How long it is good, if it is not used
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "1h")]
    pub lifetime: Duration,

    /// Namespaces that the host may begin sessions in [default: all]
    #[arg(long = "namespace", value_name = "NAME", num_args = 1..)]
    pub namespaces: Vec<String>,
}

#[derive(Debug, Args)]
pub struct JoinArgs {
    /// What `wayside node token` wrote; `-` reads it from standard input, where other users do not see it
    #[arg(value_name = "TOKEN")]
    pub token: String,

    /// Where the host's credentials are kept [default: /etc/wayside/node as root, $XDG_CONFIG_HOME/wayside/node]
    #[arg(long, env = CREDENTIALS_VARIABLE, value_name = "DIR")]
    pub credentials: Option<PathBuf>,

    /// Join by way of another switch: its relay that stands for the token's (`relays` of its configuration), as
    /// sessions will name it
    #[arg(long, value_name = "ADDR:PORT")]
    pub relay: Option<SocketAddrV4>,
}

#[derive(Debug, Args)]
pub struct RenewArgs {
    #[command(flatten)]
    pub endpoint: EndpointArgs,

    /// Where the host's credentials are kept [default: /etc/wayside/node as root, $XDG_CONFIG_HOME/wayside/node]
    #[arg(long, env = CREDENTIALS_VARIABLE, value_name = "DIR")]
    pub credentials: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Of the host, as `wayside node list` shows it
    pub id: String,

    #[command(flatten)]
    pub state: StateArgs,
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Half a minute, one table: an acquire, a cycle and a hand-over through a switch of its own, in turn with a bare
    /// UDP echo, and with Redis if redis-server is installed
    Quick(QuickArgs),

    /// Kills switches and nodes of its own while locks are held, and tells how long what is away
    Recovery(RecoveryArgs),

    /// Keys and values beside etcd and ZooKeeper, of three servers each, those that are installed
    Keys(KeysArgs),

    /// Wayside beside Redis, etcd, ZooKeeper and PostgreSQL, those that are installed, with the same lock requests, and
    /// the papers' headlines beside what our designs give by a model: one page with tables, curves and heat maps. Or a
    /// page from records, without measuring
    Report(ReportArgs),

    /// What changed between two records of the same kind, and whether by more than their rounds differ
    Compare(CompareArgs),

    /// Holds locks, for `recovery` to kill it
    #[command(hide = true)]
    Hold(HoldArgs),
}

#[derive(Debug, Args)]
pub struct QuickArgs {
    /// How long to measure all in all
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub time: Duration,

    /// Leave idle processors to the kernel, instead of keeping them awake where that is allowed (/dev/cpu_dma_latency)
    #[arg(long)]
    pub let_idle: bool,

    /// How the answer looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct RecoveryArgs {
    /// With 10,000 locks, once: some seconds, instead of minutes with up to a million
    #[arg(long)]
    pub short: bool,

    /// Switches at the XDP hook, each on a host of its own in network namespaces: as root
    #[arg(long)]
    pub hook: bool,

    /// How the answer looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct KeysArgs {
    /// With few keys and clients, once: mostly for servers to start, instead of some minutes
    #[arg(long)]
    pub short: bool,

    /// With this store alone; given several times, with each [default: every one that there is]
    #[arg(long = "store", value_name = "NAME")]
    pub stores: Vec<String>,

    /// How the answer looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Records in JSON that were kept, of any kind [default: measures lock services]
    #[arg(value_name = "RECORD", conflicts_with_all = ["short", "workloads", "services", "clients", "thinks", "rounds"])]
    pub records: Vec<PathBuf>,

    /// Where the page is written, and beside it the same as .csv and, if it was measured, .json; and, unless only some
    /// workloads or services are, the papers' headlines as -papers.csv and -papers.json
    #[arg(long, value_name = "FILE", default_value = "wayside-report.html")]
    pub out: PathBuf,

    /// Three workloads with 16 clients, once: some minutes, instead of an hour and a quarter
    #[arg(long)]
    pub short: bool,

    /// This workload alone; given several times, each of them. `list` shows all that there are
    #[arg(long = "workload", value_name = "NAME")]
    pub workloads: Vec<String>,

    /// This service alone; given several times, each of them
    #[arg(long = "service", value_name = "NAME", value_parser = PossibleValuesParser::new(wayside_bench::service_names()))]
    pub services: Vec<String>,

    /// So many clients, in all workloads
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub clients: Option<usize>,

    /// Hold all of a transaction's locks for so many microseconds besides; given several times, every workload is run
    /// with each
    #[arg(long = "think", value_name = "US", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub thinks: Vec<u64>,

    /// How often each service runs each workload
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The record before, in JSON
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// And after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
}

#[derive(Debug, Args)]
pub struct HoldArgs {
    #[arg(long)]
    pub endpoint: String,

    #[arg(long)]
    pub count: u64,
}

const LOCK_EXIT_CODES: &str = "\
COMMAND finds the fencing token in WAYSIDE_LOCK_TOKEN. It ends before the lock can be anybody else's.

Exit codes: COMMAND's own (128 + signal if a signal ended it); 64 bad arguments, 69 no switch, 75 held by another or \
timed out (see -E), 76 lost or its --ttl over while COMMAND ran, 77 not allowed, 126 COMMAND can't be run, 127 COMMAND not found.";

#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// TOML file with the long flags below as keys (listen, admin_listen, ...) and an array of tables `namespace`
    /// (name, slots, policy, engine and more: docs/daemon.md)
    #[arg(long, env = "WAYSIDE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the configuration, print what it amounts to, and end
    #[arg(long)]
    pub check_config: bool,

    /// Detach what a daemon of this --listen and --bpf-dir has left deciding at the XDP hook when it died, and end
    #[arg(long, conflicts_with = "check_config")]
    pub detach: bool,

    #[command(flatten)]
    pub settings: Settings,
}

/// Which switch to talk to.
#[derive(Clone, Debug, Args)]
pub struct EndpointArgs {
    /// Where the switch is; several ways to it separated by commas; where locks are divided among shards, NAME= and
    /// those of each, separated by semicolons
    #[arg(
        id = "endpoint",
        long,
        env = ENDPOINTS_VARIABLE,
        value_name = "HOST:PORT",
        value_parser = Endpoints::parse,
        default_value = "127.0.0.1:7600"
    )]
    pub endpoints: Endpoints,
}

impl EndpointArgs {
    /// Those of each shard, with its name where there are several.
    pub fn of_each(&self) -> impl Iterator<Item = (Option<&str>, &[Endpoint])> {
        let named = |place: usize| Some(self.endpoints.shards()?.names()[place].as_str());
        self.endpoints.of_each().iter().enumerate().map(move |(place, list)| (named(place), list.as_slice()))
    }

    /// Those of all shards.
    pub fn all(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.of_each().iter().flatten()
    }

    /// Those of the shard that has the keys.
    pub fn of_keys(&self) -> &[Endpoint] {
        self.endpoints.of_keys()
    }
}

#[derive(Debug, Args)]
pub struct QueryArgs {
    #[command(flatten)]
    pub endpoint: EndpointArgs,

    /// How the answer looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub query: QueryArgs,

    /// Interfaces that a switch would use [default: those with the switch's address, or with any]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub interfaces: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LocksArgs {
    /// List instead the locks that are asked for most, where locks are queues; of others those that most await now
    #[arg(long)]
    pub hot: bool,

    #[command(flatten)]
    pub query: QueryArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

impl Output {
    /// A line as it came, or for people.
    pub fn of(self, line: String, text: impl FnOnce() -> String) -> String {
        if self == Output::Json { line } else { text() }
    }
}

#[derive(Debug, Args)]
pub struct LockArgs {
    /// Name of the lock: 1 to 1,024 bytes
    pub name: String,

    /// Hold it together with others that ask for it shared
    #[arg(long)]
    pub shared: bool,

    /// Give up at once if another holds it
    #[arg(long = "try", conflicts_with = "wait")]
    pub try_: bool,

    /// Be served before waiters of lower priority: 0 to 7, of which 4 is that of all who say nothing
    #[arg(long, value_name = "N", default_value_t = Priority::NORMAL.level(),
        value_parser = clap::value_parser!(u8).range(..=7))]
    pub priority: u8,

    /// Give up after this time [default: wait as long as it takes, if a switch answers within 3s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub wait: Option<Duration>,

    /// Hold it at most this long: COMMAND is ended before [default: as long as COMMAND runs]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub ttl: Option<Duration>,

    /// After this time without contact to the switch COMMAND has been ended and the lock is free [default: the
    /// switch's]
    #[arg(long, env = "WAYSIDE_LEASE", value_name = "TIME", value_parser = lease)]
    pub lease: Option<Duration>,

    /// Namespace of the name
    #[arg(long, env = "WAYSIDE_NAMESPACE", value_name = "NAME", default_value = "default")]
    pub namespace: String,

    /// Exit with this code instead of 75 when the lock is held by another or timed out
    #[arg(short = 'E', long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(1..))]
    pub conflict_exit_code: Option<u8>,

    #[command(flatten)]
    pub endpoint: EndpointArgs,

    /// Command to run, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "not a time; write one such as 250ms, 10s or 5m".into())
}

/// A time of at least a millisecond: nothing can be done in less.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time < Duration::from_millis(1) { Err("at least 1ms is needed".into()) } else { Ok(time) }
}

/// The switch would silently take the limit instead.
fn lease(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    let within = (SHORTEST_LEASE..=LONGEST_LEASE).contains(&time);
    if within { Ok(time) } else { Err(format!("must be {} to {}", Shown(SHORTEST_LEASE), Shown(LONGEST_LEASE))) }
}
