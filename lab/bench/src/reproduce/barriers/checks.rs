//! The paper's check of barriers, and its way of timing them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::baselines::CounterBarrier;
use syncline_fabric::transport::in_memory::Conditions;
use syncline_fabric::{Member, Team};
use syncline_sync::barrier::{Combined, Counter, Dissemination, Tournament};
use syncline_sync::board::Flags;
use syncline_sync::{Barrier as _, BarrierMember, Space, SpaceError};

use crate::error::{Failure, Result, failed};
use crate::plot::{Axis, Chart, Figure, Line};
use crate::reproduce::lab::Lab;
use crate::reproduce::outcome::{Claim, Outcome, Table};

/// A line of a member's output: the round, the value, and the time.
#[derive(Clone, Copy, Debug)]
struct Printed {
    round: u64,
    value: u64,
    at: Instant,
}

/// The output of a check: that of each member.
struct Check {
    name: &'static str,
    kind: &'static str,
    members: Vec<Vec<Printed>>,
}

/// What a script finds in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    /// Values that differ from the round's.
    values: usize,
    /// Rounds of which a member's time is not before all times of the next round.
    overlaps: usize,
    /// Members whose rounds are not all rounds, in order.
    skips: usize,
}

impl Check {
    fn faults(&self) -> Faults {
        let mut faults = Faults::default();
        let rounds = self.members.iter().map(Vec::len).max().unwrap_or(0);
        for printed in &self.members {
            faults.values += printed.iter().filter(|line| line.value != line.round).count();
            let order = printed.iter().zip(1..).all(|(line, round)| line.round == round);
            faults.skips += usize::from(!order || printed.len() != rounds);
        }
        let of = |round: usize| {
            self.members.iter().filter_map(move |lines| lines.get(round).map(|line| line.at))
        };
        for round in 1..rounds {
            let (last, first) = (of(round - 1).max(), of(round).min());
            faults.overlaps +=
                usize::from(last.zip(first).is_some_and(|(last, first)| last >= first));
        }
        faults
    }
}

/// The part of a member: it changes a variable when it is its turn, meets the others, and prints.
/// Rounds use two variables in turn, since a fast member is one round ahead.
fn part(
    me: usize,
    members: usize,
    rounds: u64,
    variables: &[AtomicU64; 2],
    mut meet: impl FnMut() -> Result<()>,
) -> Result<Vec<Printed>> {
    let mut printed = Vec::new();
    for round in 1..=rounds {
        let variable = &variables[(round % 2) as usize];
        // Relaxed: the barrier provides the ordering, which is what is checked.
        if round as usize % members == me {
            variable.store(round, Ordering::Relaxed);
        }
        meet()?;
        printed.push(Printed {
            round,
            value: variable.load(Ordering::Relaxed),
            at: Instant::now(),
        });
        // So that the clock shows another time in the next round.
        while printed.last().is_some_and(|line| line.at == Instant::now()) {}
    }
    Ok(printed)
}

/// Checks a barrier of threads.
fn threads<M: FnMut() -> Result<()> + Send>(
    name: &'static str,
    rounds: u64,
    members: impl IntoIterator<Item = M>,
) -> Result<Check> {
    let variables = &[AtomicU64::new(0), AtomicU64::new(0)];
    let members: Vec<M> = members.into_iter().collect();
    let count = members.len();
    let ended = thread::scope(|scope| {
        let start = |(me, meet)| scope.spawn(move || part(me, count, rounds, variables, meet));
        let all: Vec<_> = members.into_iter().enumerate().map(start).collect();
        all.into_iter()
            .map(|one| one.join().map_err(|_| Failure::from("a member panicked"))?)
            .collect::<Result<Vec<_>>>()
    });
    Ok(Check { name, kind: "threads", members: ended? })
}

fn meets<M: BarrierMember>(mut member: M) -> impl FnMut() -> Result<()> {
    move || Ok(member.wait()?)
}

/// Returns the members of a barrier, as functions by which they meet.
type Meet<'b> = Box<dyn FnMut() -> Result<()> + Send + 'b>;

fn boxed<M: BarrierMember + Send + 'static>(
    count: usize,
    member: impl Fn(usize) -> Result<M, SpaceError>,
) -> Result<Vec<Meet<'static>>> {
    (0..count).map(|rank| Ok(Box::new(meets(member(rank)?)) as Meet)).collect()
}

/// A barrier: its name and its members.
type Named<'b> = (&'static str, Vec<Meet<'b>>);

/// Returns all barriers of threads for a number of members.
fn all(count: usize, textbook: &CounterBarrier) -> Result<Vec<Named<'_>>> {
    let textbook = (0..count).map(|_| {
        let mut member = textbook.member();
        Box::new(move || {
            member.wait();
            Ok(())
        }) as Meet
    });
    let textbook: Vec<Meet<'_>> = textbook.collect();
    let counter = Counter::new(count)?;
    let tournament = Tournament::within(&mut Space::heap(), count, Flags::Padded)?;
    let dissemination = Dissemination::new(count)?;
    let half = count / 2;
    let outer = Dissemination::new(2)?;
    let groups = (0..2).map(|group| Ok(Combined::new(group, Counter::new(half)?, outer.clone())));
    let groups = groups.collect::<Result<Vec<_>, SpaceError>>()?;
    Ok(vec![
        ("counter, sense reversal (the paper's)", textbook),
        ("counter", boxed(count, |rank| counter.member(rank))?),
        ("tournament", boxed(count, |rank| tournament.member(rank))?),
        ("dissemination", boxed(count, |rank| dissemination.member(rank))?),
        ("combined, 2 groups", boxed(2 * half, |rank| groups[rank / half].member(rank % half))?),
    ])
}

/// Checks barriers between hosts of one thread, or of two for the combined barrier.
fn hosts(lab: &Lab, rounds: u64) -> Result<Vec<Check>> {
    type Part = fn(&mut Member, u64, &[AtomicU64; 2]) -> Result<Vec<Printed>>;
    let all: [(&'static str, usize, Part); 3] = [
        ("tournament", 1, |me, rounds, variables| {
            let (rank, size, member) = (me.rank(), me.size(), me.tournament()?);
            part(rank, size, rounds, variables, meets(member))
        }),
        ("dissemination", 1, |me, rounds, variables| {
            let (rank, size, member) = (me.rank(), me.size(), me.dissemination(2)?);
            part(rank, size, rounds, variables, meets(member))
        }),
        ("combined", 2, |me, rounds, variables| {
            let (rank, size, member) = (me.rank(), me.size(), me.combined(0)?);
            part(rank, size, rounds, variables, meets(member))
        }),
    ];
    let conditions = Conditions { latency: lab.scale.latency(), ..Conditions::default() };
    let check = |(name, threads, run): (&'static str, usize, Part)| -> Result<Check> {
        let variables = [AtomicU64::new(0), AtomicU64::new(0)];
        let team = Team::hosts(3).threads(threads).conditions(conditions).quiet();
        let ended = team.run(|me| run(me, rounds, &variables).map_err(|why| why.to_string()))?;
        let members = ended.into_iter().collect::<Result<Vec<_>, _>>();
        let members = members.map_err(|why| failed(&format!("check {name}"), why))?;
        Ok(Check { name, kind: "hosts", members })
    };
    all.into_iter().map(check).collect()
}

/// B11: each barrier holds its members.
pub(in crate::reproduce) fn correctness(lab: &Lab) -> Result<Outcome> {
    let rounds = lab.scale.pick(20, 2000, 20_000);
    let count = 4;
    let mut checks = Vec::new();
    for (name, members) in all(count, &CounterBarrier::new(count))? {
        lab.signals.check()?;
        checks.push(threads(name, rounds, members)?);
    }
    checks.extend(hosts(lab, rounds.min(500))?);
    let head = [
        "barrier",
        "members",
        "kind",
        "rounds",
        "wrong values",
        "rounds that overlap",
        "members that skip",
    ];
    let mut table = Table::new("checks", head);
    let mut printed = Table::new("printed", ["barrier", "kind", "member", "round", "value", "us"]);
    let mut sum = 0;
    let mut charts = Vec::new();
    for check in &checks {
        let Faults { values, overlaps, skips } = check.faults();
        sum += values + overlaps + skips;
        let done = check.members.first().map_or(0, Vec::len);
        table.row([
            check.name.into(),
            check.members.len().into(),
            check.kind.into(),
            done.into(),
            values.into(),
            overlaps.into(),
            skips.into(),
        ]);
        // The first rounds, as a program would print them.
        let start = check.members.iter().flatten().map(|line| line.at).min();
        let us = |at: Instant| start.map_or(0.0, |start| (at - start).as_secs_f64() * 1e6);
        let first = |lines: &'_ [Printed]| lines.iter().take(6).copied().collect::<Vec<_>>();
        for (member, lines) in check.members.iter().enumerate() {
            for line in first(lines) {
                printed.row([
                    check.name.into(),
                    check.kind.into(),
                    member.into(),
                    line.round.into(),
                    line.value.into(),
                    us(line.at).into(),
                ]);
            }
        }
        let round = |n: u64| {
            let at = check.members.iter().enumerate();
            let at = at.filter_map(|(m, lines)| {
                Some((us(lines.iter().find(|line| line.round == n)?.at), m as f64))
            });
            Line::of(format!("round {n}"), at).loose()
        };
        if ["tournament", "dissemination"].contains(&check.name) {
            charts.push(
                Chart::new(
                    format!("{}, {}", check.name, check.kind),
                    Axis::linear("time after the first line, us"),
                    Axis::each("member"),
                )
                .lines((1..=6).map(round)),
            );
        }
    }
    let number = checks.len();
    Ok(Outcome::default()
        .claim(Claim::new(
            "equal values in all members, the last time of a round before the first of the next \
             one, and no member that skips a barrier",
            format!("{sum} faults of {number} barriers in up to {rounds} rounds"),
            sum == 0,
        ))
        .note(format!(
            "hosts are groups of threads with {} us between them",
            lab.scale.latency().as_micros()
        ))
        .table(table)
        .table(printed)
        .figure(Figure::charts("Barriers: when members print after a barrier", 2, charts)))
}

/// B12: the paper's way of timing, beside the race's.
pub(in crate::reproduce) fn timing(lab: &Lab) -> Result<Outcome> {
    let loops: u64 = lab.scale.pick(20, 20_000, 1_000_000);
    let mut table = Table::new(
        "times",
        [
            "barrier",
            "kind",
            "members",
            "barriers",
            "us per barrier, the paper's way",
            "us, median of the race",
        ],
    );
    let contest = lab.threads()?;
    let race = |name: &str| match name {
        "tournament" => contest.median(super::TOURNAMENT, 2),
        "counter, sense reversal (the paper's)" => contest.median(super::COUNTER, 2),
        "dissemination" => contest.median("dissemination, padded", 2),
        _ => None,
    };
    let mut ratios = Vec::new();
    let (mut paper, mut ours, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (name, members) in all(2, &CounterBarrier::new(2))? {
        if name.starts_with("combined") {
            continue;
        }
        lab.signals.check()?;
        let us = timed(loops, members)?.as_secs_f64() * 1e6 / (5 * loops) as f64;
        let median = race(name).map(|ns| ns / 1e3);
        ratios.extend(median.map(|median| us / median));
        table.row([
            name.into(),
            "threads".into(),
            2_usize.into(),
            (5 * loops).into(),
            us.into(),
            median.into(),
        ]);
        let at = names.len() as f64;
        paper.push((at, us));
        ours.extend(median.map(|median| (at, median)));
        names.push(if name.contains("paper") { "counter (paper)" } else { name });
    }
    // Between hosts the member with rank 0 reads the clock.
    let conditions = Conditions { latency: lab.scale.latency(), ..Conditions::default() };
    let far = loops.min(200);
    let ended = Team::hosts(2).conditions(conditions).quiet().run(|me| {
        let mut member = me.dissemination(2).map_err(|why| why.to_string())?;
        let start = Instant::now();
        for _ in 0..5 * far {
            member.wait().map_err(|why| why.to_string())?;
        }
        Ok::<_, String>(start.elapsed())
    })?;
    let first = ended.into_iter().next().ok_or("a team without members")?;
    let us = first.map_err(|why| failed("time a barrier between hosts", why))?.as_secs_f64() * 1e6
        / (5 * far) as f64;
    let median = lab.processes()?.get(&2).and_then(|all| super::us(all, "dissemination, radix 2"));
    table.row([
        "dissemination".into(),
        "hosts".into(),
        2_usize.into(),
        (5 * far).into(),
        us.into(),
        median.into(),
    ]);
    let (low, high) =
        ratios.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &r| (a.min(r), b.max(r)));
    let chart = Chart::new("2 threads", Axis::places("", names), Axis::log("time per barrier, us"))
        .line(Line::of("the paper's way: one long loop", paper).loose())
        .line(Line::of("median of short rounds", ours).loose());
    Ok(Outcome::default()
        .claim(Claim::beside(
            "the mean of a loop of 1 million times 5 barriers, by the last-written begin and end",
            format!(
                "such a mean over {} barriers is {low:.2} to {high:.2} times the median of \
                 short rounds",
                5 * loops
            ),
        ))
        .note("a long mean contains every disturbance of the machine")
        .table(table)
        .figure(Figure::charts("Barriers: two ways of timing", 1, vec![chart])))
}

/// Runs a loop of five barriers as the paper does: each thread writes the begin and the end; the
/// last written ones count.
fn timed<'b>(loops: u64, members: Vec<Meet<'b>>) -> Result<Duration> {
    let zero = Instant::now();
    let (begin, end) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let now = move || zero.elapsed().as_nanos() as u64;
    thread::scope(|scope| {
        let start = |mut meet: Meet<'b>| {
            scope.spawn(move || -> Result<()> {
                // Relaxed: each word is read after all threads have ended.
                begin.store(now(), Ordering::Relaxed);
                for _ in 0..loops {
                    for _ in 0..5 {
                        meet()?;
                    }
                }
                end.store(now(), Ordering::Relaxed);
                Ok(())
            })
        };
        let all: Vec<_> = members.into_iter().map(start).collect();
        all.into_iter()
            .try_for_each(|one| one.join().map_err(|_| Failure::from("a member panicked"))?)
    })?;
    let took = end.load(Ordering::Relaxed).saturating_sub(begin.load(Ordering::Relaxed));
    Ok(Duration::from_nanos(took))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The barrier that is none lets member 1 do its third step before member 0 has done its first:
    /// so member 0 has printed its first round after the second round of member 1.
    #[test]
    fn a_check_finds_what_a_barrier_does_wrong() {
        let steps = AtomicU64::new(0);
        let none = |me| {
            let steps = &steps;
            move || {
                match me {
                    // Acquire, Release: the clock is read in this order, too.
                    0 => {
                        while steps.load(Ordering::Acquire) < 3 {
                            thread::yield_now();
                        }
                    }
                    1 => _ = steps.fetch_add(1, Ordering::Release),
                    _ => {}
                }
                Ok(())
            }
        };
        let right =
            threads("counter", 50, all(3, &CounterBarrier::new(3)).unwrap().swap_remove(1).1)
                .unwrap();
        assert_eq!(right.faults(), Faults::default());
        let wrong = threads("none", 50, (0..3).map(none)).unwrap();
        assert!(wrong.faults().values + wrong.faults().overlaps > 0, "{:?}", wrong.faults());
        let mut skipping = right;
        skipping.members[1].remove(7);
        assert_eq!(skipping.faults().skips, 1);
    }
}
