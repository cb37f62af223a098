//! Several hosts: the papers' figures.
//!
//! | group     | figures           | what is timed                                               |
//! |-----------|-------------------|-------------------------------------------------------------|
//! | `ping`    |                   | a message and one back                                      |
//! | `ring`    |                   | one hop of a token that goes round all members, by an       |
//! |           |                   | overlay and by messages of MPI                              |
//! | `long`    |                   | one member's long data to the next host, and from there     |
//! | `fence`   | thesis 3.3 to 3.6 | one member's fence of all, after puts to 1 .. N - 1 hosts   |
//! | `sync`    | thesis 4.3        | fence and barrier of all, right after puts to all others    |
//! | `delay`   | thesis 4.4, 4.5   | the same, a while after the puts                            |
//! | `lock`    | thesis 5.4, 5.5   | lock, unlock and handover of a mutex at member 0, n contend |
//! | `queue`   |                   | handover of that mutex, held until all others request it    |
//! | `counter` |                   | fetch-and-add on a word of member 0, by all                 |
//! | `barrier` | barriers 2, 3, 4  | barriers back to back                                       |
//! | `idle`    |                   | the processor time of server threads while members sleep    |
//!
//! Members sleep through delays instead of computing: hosts of a testbed have fewer cores than
//! members.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_rma::unstable::{Window, fence_all_asking, sync_exchange};
use syncline_sync::BarrierMember as _;

use super::kit::{KINDS, Kit, LONG, LONGEST};
use super::race::{Cell, Entry, Of, Pace, Setting, all, each, race};
use super::report::{Report, Team};
use super::targets;
use crate::error::{Result, failed};
use crate::race::{Machine, Side, Spread};

type Far<'m> = Kit<'m>;

/// The groups to measure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'w> {
    /// Only groups whose name contains one of these; empty: all groups.
    pub(super) only: &'w [&'w str],
    /// Whether fences have all numbers of targets and of requests in flight that the thesis has.
    pub(super) all_fences: bool,
}

/// Measures all requested groups, as all members together.
pub(super) fn report(me: &mut Member, pace: Pace<'_>, wanted: Wanted<'_>) -> Result<Report> {
    let Wanted { only, all_fences } = wanted;
    let threads = me.threads();
    let shape = (me.hosts().count(), me.processes(), me.size());
    let transport =
        me.endpoint().map_or_else(String::new, |endpoint| endpoint.transport().to_owned());
    let mut kit = Kit::new(me)?;
    // A blocking MPI call prevents the other threads of its process from serving those that are
    // still to join it.
    let mpi = threads == 1 && kit.skipped.is_empty();
    let wanted = |group: &str| only.is_empty() || only.iter().any(|only| group.contains(only));
    let mut cells = Vec::new();
    let (hosts, processes, size) = shape;
    let groups: [(&'static str, Vec<Entry<'_, Far<'_>>>); 10] = [
        ("ping", pings(mpi)),
        ("ring", rings(mpi)),
        ("long", longs(mpi)),
        ("fence", fences(hosts, all_fences)),
        (
            "sync",
            [100, LONGEST].into_iter().flat_map(|bytes| syncs(hosts, bytes, 0, mpi)).collect(),
        ),
        ("delay", delays(hosts, mpi)),
        ("lock", locks(size)),
        ("queue", queues(size)),
        ("counter", counters(mpi)),
        ("barrier", barriers(mpi)),
    ];
    for (group, entries) in groups {
        if wanted(group) {
            cells.extend(race(&mut kit, group, entries, pace)?);
        }
    }
    if wanted("idle") {
        cells.extend(idle(&mut kit)?);
    }
    // All members have finished with MPI before any member releases its part.
    kit.me.gather(0)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let team = Team {
        machine: Machine::here(processors),
        hosts,
        processes,
        threads,
        transport,
        hop_ns: None,
        unit: ("us", 1e3),
    };
    let targets = targets::far(&cells, hosts);
    Ok(Report { team, cells, skipped: std::mem::take(&mut kit.skipped), targets })
}

fn pings<'a, 'm>(mpi: bool) -> Vec<Entry<'a, Far<'m>>> {
    let batch = 10;
    let only_first = |kit: &Far<'_>| kit.me.rank() == 0;
    let mut entries = vec![
        Entry::time("a message and one back", "8 B", batch, move |kit: &mut Far<'_>| {
            if only_first(kit) { all(batch, |_| kit.ping(1)) } else { Ok(f64::NAN) }
        }),
        Entry::time("get", "8 B", batch, move |kit| {
            if !only_first(kit) {
                return Ok(f64::NAN);
            }
            let (mut word, from) = ([0; 8], kit.others[0]);
            Ok(all(batch, |_| kit.ours.rma.get(&kit.ours.memory, from, 0, &mut word))?)
        }),
    ];
    if mpi {
        entries.push(Entry::time(
            "messages of MPI, both poll",
            "8 B",
            0,
            move |kit: &mut Far<'_>| {
                let (process, other) = (kit.me.process(), kit.me.hosts().server(1));
                match &kit.mpi {
                    Some(peer) if process == 0 => all(batch, |_| peer.ping(other, true)),
                    Some(peer) if process == other => {
                        all(batch, |_| peer.ping(0, false)).map(|_| f64::NAN)
                    }
                    _ => Ok(f64::NAN),
                }
            },
        ));
    }
    entries
}

/// The rounds of a token that are timed, after a few that are not.
const RINGS: u64 = 20;
const FIRST: u64 = 4;

/// The hops of a token of 8 bytes, or of a long one. Every member's task adds to it and passes it
/// on. The overlay and the messages of MPI do the same, with the same number of messages.
fn rings<'a, 'm>(mpi: bool) -> Vec<Entry<'a, Far<'m>>> {
    let mut entries = Vec::new();
    for words in [1, 4 << 10, 32 << 10, 128 << 10, 512 << 10] {
        let setting = format!("{} B", 8 * words);
        entries.push(Entry::time(
            "overlay, a ring",
            setting.clone(),
            0,
            move |kit: &mut Far<'_>| overlay_ring(kit.me, words),
        ));
        if mpi {
            entries.push(Entry::time(
                "messages of MPI, a ring",
                setting,
                0,
                move |kit: &mut Far<'_>| match &kit.mpi {
                    Some(peer) => peer.ring(FIRST, RINGS, 8 * words),
                    None => Ok(f64::NAN),
                },
            ));
        }
    }
    entries
}

/// Returns the time of a hop, in nanoseconds.
fn overlay_ring(me: &mut Member, words: usize) -> Result<f64> {
    use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};

    let (size, rank) = (me.size(), me.rank());
    let token = Location::slice("token", vec![0_u64; words]);
    let times = std::sync::Mutex::new([Instant::now(); 2]);
    let mut overlay = Overlay::new();
    for member in 0..size {
        let times = &times;
        overlay.task(format!("member {member}"), token.write(), move |token, step| {
            token[0] += 1;
            if member == rank {
                let round = step.iteration();
                let mut times = times.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match round {
                    FIRST => times[0] = Instant::now(),
                    _ if round == FIRST + RINGS => times[1] = Instant::now(),
                    _ => (),
                }
            }
        });
    }
    let mut overlay =
        overlay.check(Initial::Program).map_err(|error| failed("run a ring", error))?;
    let report = overlay.run_on(me, Runner::pool(1), Stop::after(FIRST + RINGS + 1));
    let report = report.map_err(|error| failed("run a ring", error))?;
    let next = (rank + 1) % size;
    let far = me.hosts().of(me.process()) != me.hosts().of(next / me.threads());
    let expected = if far { FIRST + RINGS + 1 } else { 0 };
    if (report.messages, report.room_messages) != (expected, 0) {
        let sent = format!("{} messages, not {expected}", report.messages);
        return Err(failed("run a ring", sent));
    }
    drop(overlay);
    let [start, end] = times.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((end - start).as_nanos() as f64 / (RINGS * size as u64) as f64)
}

/// Entries that one member runs; the others only meet it, and their servers have nothing else to
/// do. Only of the messages of MPI, the other end takes part.
fn longs<'a, 'm>(mpi: bool) -> Vec<Entry<'a, Far<'m>>> {
    type Step = fn(&mut Far<'_>, usize) -> Result<()>;
    let mut entries = Vec::new();
    for (setting, len) in LONG {
        let one = |way: &str, step: Step| {
            Entry::time(way, setting, BATCH, move |kit: &mut Far<'_>| {
                if kit.me.rank() == 0 { all(BATCH, |_| step(kit, len)) } else { Ok(f64::NAN) }
            })
        };
        entries.push(one("put; fence", |kit, len| {
            let (rma, to) = (&mut kit.ours.rma, kit.others[0]);
            rma.put(&kit.large, to, 0, &kit.long[..len])?;
            Ok(rma.fence(to)?)
        }));
        entries.push(one("get", |kit, len| {
            Ok(kit.ours.rma.get(&kit.large, kit.others[0], 0, &mut kit.long[..len])?)
        }));
        if !mpi {
            continue;
        }
        entries.push(one("MPI_Put; flush", |kit, len| match &kit.mpi {
            Some(peer) => peer.put_long(&kit.long[..len]),
            None => Ok(()),
        }));
        entries.push(one("MPI_Get; flush", |kit, len| match &kit.mpi {
            Some(peer) => peer.get_long(&mut kit.long[..len]),
            None => Ok(()),
        }));
        entries.push(Entry::time(
            "MPI_Isend; a message back",
            setting,
            0,
            move |kit: &mut Far<'_>| {
                let (process, other) = (kit.me.process(), kit.me.hosts().server(1));
                let Kit { mpi: Some(peer), long, .. } = kit else { return Ok(f64::NAN) };
                let data = &mut long[..len];
                if process == 0 {
                    all(BATCH, |_| peer.send_long(other, data))
                } else if process == other {
                    all(BATCH, |_| peer.receive_long(0, data)).map(|_| f64::NAN)
                } else {
                    Ok(f64::NAN)
                }
            },
        ));
    }
    entries
}

/// The number of operations in a batch where members wait for one another.
const BATCH: usize = 4;

fn fences<'a, 'm>(hosts: usize, full: bool) -> Vec<Entry<'a, Far<'m>>> {
    let mut entries = Vec::new();
    let most = (hosts - 1).min(7);
    for bytes in [100, LONGEST] {
        let some = |targets: usize| targets <= 3 || targets == 5 || targets == most;
        for targets in (1..=most).filter(|&targets| full || some(targets)) {
            let odd = |k: usize| full && !k.is_multiple_of(2);
            let windows = (1..=targets).filter(|&k| k <= 3 || k == targets || odd(k));
            let ways = windows.map(|k| match k {
                1 => ("asking, K = 1".to_owned(), Some(1)),
                k if k == targets => ("asking, K = all".to_owned(), Some(k)),
                k => (format!("asking, K = {k}"), Some(k)),
            });
            for (way, window) in ways.chain([("fence_all".to_owned(), None)]) {
                let setting = format!("{bytes} B, {targets} targets");
                entries.push(Entry::time(way, setting, BATCH, move |kit: &mut Far<'_>| {
                    if kit.me.rank() != 0 {
                        return Ok(f64::NAN);
                    }
                    let put = |kit: &mut Far<'_>| {
                        let Kit { ours, others, data, .. } = kit;
                        ours.put(&others[..targets], &data[..bytes])
                    };
                    each(kit, BATCH, put, |kit| fence(kit, window))
                }));
            }
        }
    }
    entries
}

fn fence(kit: &mut Far<'_>, window: Option<usize>) -> Result<()> {
    match window {
        Some(k) => fence_all_asking(&mut kit.ours.rma, Window { k, random: k > 1 })?,
        None => kit.ours.rma.fence_all()?,
    }
    Ok(())
}

/// Returns the ways in which all members complete all puts and meet.
fn syncs<'a, 'm>(hosts: usize, bytes: usize, delay: u64, mpi: bool) -> Vec<Entry<'a, Far<'m>>> {
    let setting = if delay == 0 { format!("{bytes} B") } else { format!("{bytes} B, {delay} us") };
    let delay = Duration::from_micros(delay);
    let pause = move || {
        if !delay.is_zero() {
            sleep(delay);
        }
    };
    let ours = |way: &str, finish: fn(&mut Far<'_>) -> Result<()>| {
        Entry::time(way, setting.clone(), BATCH, move |kit: &mut Far<'_>| {
            let put = |kit: &mut Far<'_>| {
                let Kit { ours, others, data, .. } = kit;
                ours.put(others, &data[..bytes])?;
                pause();
                Ok(())
            };
            each(kit, BATCH, put, finish)
        })
    };
    let mut entries = vec![
        ours("asking, K = 1; dissemination", |kit| {
            fence(kit, Some(1))?;
            Ok(kit.dissemination.wait()?)
        }),
        ours("asking, K = all; dissemination", |kit| {
            fence(kit, Some(usize::MAX))?;
            Ok(kit.dissemination.wait()?)
        }),
        ours("fence_all; dissemination", |kit| {
            fence(kit, None)?;
            Ok(kit.dissemination.wait()?)
        }),
        ours("sync", |kit| Ok(kit.ours.rma.sync()?)),
        ours("sync_global", |kit| Ok(kit.ours.rma.sync_global()?)),
    ];
    let radix = if sync_exchange::best_radix(hosts) == 2 { "; ours has radix 2, too" } else { "" };
    let way = format!("two exchanges of radix 2{radix}");
    entries.push(Entry::time(way, setting.clone(), BATCH, move |kit: &mut Far<'_>| {
        let put = |kit: &mut Far<'_>| {
            let Kit { thesis, others, data, .. } = kit;
            thesis.put(others, &data[..bytes])?;
            pause();
            Ok(())
        };
        each(kit, BATCH, put, |kit| {
            kit.thesis.rma.sync()?;
            Ok(kit.thesis.rma.sync()?)
        })
    }));
    if mpi {
        entries.push(Entry::time(
            "MPI: flush_all; barrier",
            setting,
            0,
            move |kit: &mut Far<'_>| {
                let Kit { mpi: Some(peer), data, .. } = kit else { return Ok(f64::NAN) };
                let put = |peer: &mut &mut super::kit::Peer| {
                    peer.put(&data[..bytes])?;
                    pause();
                    Ok(())
                };
                let mut peer = peer;
                each(&mut peer, BATCH, put, |peer| {
                    peer.window.flush_all()?;
                    Ok(peer.communicator.barrier()?)
                })
            },
        ));
    }
    entries
}

fn delays<'a, 'm>(hosts: usize, mpi: bool) -> Vec<Entry<'a, Far<'m>>> {
    let short = [10, 50, 100].map(|delay| (100, delay));
    let long = [50, 100, 200].map(|delay| (LONGEST, delay));
    short
        .into_iter()
        .chain(long)
        .flat_map(|(bytes, delay)| syncs(hosts, bytes, delay, mpi))
        .collect()
}

fn locks<'a, 'm>(size: usize) -> Vec<Entry<'a, Far<'m>>> {
    let mut entries = Vec::new();
    let counts = (1..=size).filter(|&n| n <= 4 || n == 6 || n == size - 1 || n == size);
    for contenders in counts {
        // If not all members contend, the owner does not.
        let first = usize::from(contenders < size);
        for (n, (_, name)) in KINDS.into_iter().enumerate() {
            let run = move |kit: &mut Far<'_>| -> Result<Vec<f64>> {
                if !(first..first + contenders).contains(&kit.me.rank()) {
                    return Ok(vec![f64::NAN; 3]);
                }
                let Kit { mutexes, ours, .. } = kit;
                let (mut locks, mut unlocks) = (Duration::ZERO, Duration::ZERO);
                let start = Instant::now();
                for _ in 0..BATCH {
                    let asked = Instant::now();
                    mutexes[n].lock(&mut ours.rma, 0, 0)?;
                    let got = Instant::now();
                    mutexes[n].unlock(&mut ours.rma, 0, 0)?;
                    locks += got - asked;
                    unlocks += got.elapsed();
                }
                let by = |time: Duration, count: usize| time.as_nanos() as f64 / count as f64;
                let each = by(start.elapsed(), BATCH * contenders);
                Ok(vec![by(locks, BATCH), by(unlocks, BATCH), each])
            };
            let setting = format!("{contenders} of {size} contend");
            let metrics = &["lock", "unlock", "each hand-over"];
            let of = &[Of::Mean, Of::Mean, Of::Slowest];
            entries.push(Entry::of(name, setting, BATCH * contenders, metrics, of, run));
        }
    }
    entries
}

/// Measures handovers. The holder holds the mutex for two round trips, which are subtracted.
fn queues<'a, 'm>(size: usize) -> Vec<Entry<'a, Far<'m>>> {
    let mut entries = Vec::new();
    for contenders in (2..size).filter(|&n| n == 2 || n == 3 || n == size - 1) {
        for (n, (_, name)) in KINDS.into_iter().enumerate() {
            let setting = format!("{contenders} of {size} contend");
            entries.push(Entry::time(
                name,
                setting,
                BATCH * contenders,
                move |kit: &mut Far<'_>| {
                    let rank = kit.me.rank();
                    if !(1..=contenders).contains(&rank) {
                        return Ok(f64::NAN);
                    }
                    let Kit { mutexes, ours, ping, .. } = kit;
                    let (start, mut held) = (Instant::now(), Duration::ZERO);
                    for _ in 0..BATCH {
                        mutexes[n].lock(&mut ours.rma, 0, 0)?;
                        let got = Instant::now();
                        sleep(2 * *ping);
                        held += got.elapsed();
                        mutexes[n].unlock(&mut ours.rma, 0, 0)?;
                    }
                    let each = |time: Duration| time.as_nanos() as f64 / BATCH as f64;
                    Ok(each(start.elapsed()) / contenders as f64 - each(held))
                },
            ));
        }
    }
    entries
}

fn counters<'a, 'm>(mpi: bool) -> Vec<Entry<'a, Far<'m>>> {
    let mut entries = vec![Entry::time("fetch_add", "by all", BATCH, |kit: &mut Far<'_>| {
        let Kit { ours, counter, .. } = kit;
        Ok(all(BATCH, |_| ours.rma.fetch_add(counter, 0, 0, 1).map(|_| ()))?)
    })];
    if mpi {
        entries.push(Entry::time(
            "MPI_Fetch_and_op",
            "by all",
            0,
            |kit: &mut Far<'_>| match &kit.mpi {
                Some(peer) => all(BATCH, |_| peer.add()),
                None => Ok(f64::NAN),
            },
        ));
    }
    entries
}

fn barriers<'a, 'm>(mpi: bool) -> Vec<Entry<'a, Far<'m>>> {
    const EPISODES: usize = 8;
    let ours = |way: &str, wait: fn(&mut Far<'_>) -> Result<()>| {
        Entry::time(way, "all", EPISODES, move |kit: &mut Far<'_>| all(EPISODES, |_| wait(kit)))
    };
    let mut entries = vec![
        ours("tournament", |kit| Ok(kit.tournament.wait()?)),
        ours("dissemination, radix 2", |kit| Ok(kit.dissemination.wait()?)),
        ours("dissemination, one round", |kit| Ok(kit.one_round.wait()?)),
        ours("combined", |kit| Ok(kit.combined.wait()?)),
        ours("combined, radix 2", |kit| Ok(kit.combined_2.wait()?)),
        ours("sync, nothing put", |kit| Ok(kit.ours.rma.sync()?)),
    ];
    if mpi {
        entries.push(Entry::time("MPI_Barrier", "all", 0, |kit: &mut Far<'_>| match &kit.mpi {
            Some(peer) => Ok(all(EPISODES, |_| peer.communicator.barrier())?),
            None => Ok(f64::NAN),
        }));
    }
    entries
}

/// Measures the nanoseconds per second that the server threads run while members sleep: the maximum
/// of all members.
fn idle(kit: &mut Far<'_>) -> Result<Option<Cell>> {
    const WHILE: Duration = Duration::from_secs(5);
    kit.me.gather(0)?;
    let before = served();
    sleep(WHILE);
    let took =
        served().zip(before).map(|(after, before)| (after - before) as f64 / WHILE.as_secs_f64());
    let share = took.filter(|_| kit.me.thread() == 0).unwrap_or(f64::NAN);
    let shares = kit.me.gather(share.to_bits())?.into_iter().map(f64::from_bits);
    let spread = Spread::of(shares.filter(|share| share.is_finite()).collect());
    let key = Setting { group: "idle", setting: "5 s, members sleep".to_owned(), messages: None };
    let way = "server threads, of a second".to_owned();
    Ok(spread.map(|spread| Cell {
        key,
        way,
        metric: "",
        side: Side::Ours,
        spread,
        samples: 1,
        rounds: 1,
    }))
}

/// Returns the nanoseconds that a server thread of this process has run, the mean if there are
/// several; `None` if there are none.
fn served() -> Option<u64> {
    let tasks = fs::read_dir("/proc/self/task").ok()?.flatten();
    let server = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("server"))
    };
    let run = |task: fs::DirEntry| {
        // The kernel's account in nanoseconds; otherwise its clock, in ticks of ten milliseconds.
        let exact = fs::read_to_string(task.path().join("schedstat")).ok();
        let exact = exact.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        exact.filter(|&ns| ns > 0).or_else(|| {
            let text = fs::read_to_string(task.path().join("stat")).ok()?;
            let words = text.rsplit_once(") ")?.1.split_whitespace().skip(11).take(2);
            let ticks: u64 = words.filter_map(|word| word.parse::<u64>().ok()).sum();
            Some(ticks * 10_000_000)
        })
    };
    let all: Vec<u64> = tasks.filter(server).filter_map(run).collect();
    Some(all.iter().sum::<u64>() / (all.len() as u64).max(1)).filter(|_| !all.is_empty())
}
