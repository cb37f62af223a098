//! Diagrams: messages of fences and of barriers as they were sent, and the states of a queue lock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use syncline_fabric::transport::in_memory::Conditions;
use syncline_fabric::{Member, Team};
use syncline_rma::Rma;
use syncline_rma::unstable::{Window, fence_all_asking, with_radix};
use syncline_sync::{Lock, Mcs};
use syncline_trace::{Activity, Event, clear, disable, enable, mark, snapshot};

use crate::error::{Result, failed};
use crate::plot::{Drawing, Figure, Panel, Shape};
use crate::reproduce::lab::Lab;
use crate::reproduce::outcome::{Claim, Outcome, Table};

/// The time of a message in a diagram: long, so that a busy machine does not blur it.
const LATENCY: Duration = Duration::from_millis(3);

/// The number of events that the ring of a thread keeps.
const EVENTS: usize = (1 << 14) - 1;

/// A message: the hosts, and when it was sent and taken.
struct Message {
    from: usize,
    to: usize,
    sent: Instant,
    taken: Instant,
}

/// A recorded operation: its begin, its end, and the messages between.
struct Recorded {
    begin: Instant,
    end: Instant,
    messages: Vec<Message>,
}

impl Recorded {
    /// Returns a time in milliseconds after the begin.
    fn ms(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.begin).as_secs_f64() * 1e3
    }

    fn took(&self) -> f64 {
        self.ms(self.end)
    }
}

/// Runs a team of hosts several times, and returns the shortest record of an operation of all
/// members: other programs disturb the others.
fn record(
    hosts: usize,
    operation: impl Fn(&mut Member) -> Result<(Instant, Instant)> + Sync,
) -> Result<Recorded> {
    let mut shortest = record_once(hosts, &operation)?;
    for _ in 1..5 {
        let other = record_once(hosts, &operation)?;
        if other.took() < shortest.took() {
            shortest = other;
        }
    }
    Ok(shortest)
}

/// Runs a team of hosts, and records the messages of an operation of all members.
fn record_once(
    hosts: usize,
    operation: impl Fn(&mut Member) -> Result<(Instant, Instant)> + Sync,
) -> Result<Recorded> {
    let conditions = Conditions { latency: LATENCY, ..Conditions::default() };
    let team = Team::hosts(hosts).conditions(conditions).quiet();
    clear();
    enable(EVENTS);
    let zero = Instant::now();
    mark(Activity::Mark, 0, 0);
    let times = team.run(|me| operation(me).map_err(|why| why.to_string()));
    disable();
    let events = snapshot();
    clear();
    let times = times?.into_iter().collect::<Result<Vec<_>, _>>();
    let times = times.map_err(|why| failed("record messages", why))?;
    let begin = times.iter().map(|time| time.0).min().ok_or("a team without members")?;
    let end = times.iter().map(|time| time.1).max().ok_or("a team without members")?;
    let messages = messages(&events, zero);
    let messages = messages.into_iter().filter(|m| m.sent >= begin && m.taken <= end).collect();
    Ok(Recorded { begin, end, messages })
}

/// Returns the messages of which both ends are recorded, in the order of their arrival. `zero` is
/// the moment of the first mark.
fn messages(events: &[Event], zero: Instant) -> Vec<Message> {
    let first = events.iter().find(|event| event.activity == Activity::Mark);
    let first = first.map_or(0, |event| event.since_ns);
    let time = |event: &Event| zero + Duration::from_nanos(event.since_ns.saturating_sub(first));
    let of = |activity| events.iter().filter(move |event| event.activity == activity);
    let sent: HashMap<u64, &Event> =
        of(Activity::Sent).map(|event| (event.detail, event)).collect();
    let message = |taken: &Event| {
        // The sender and the receiver are in the detail: see `Activity`.
        let (from, to) = ((taken.detail >> 16) as usize & 0xffff, taken.detail as usize & 0xffff);
        Some(Message { from, to, sent: time(sent.get(&taken.detail)?), taken: time(taken) })
    };
    of(Activity::Received).filter_map(message).collect()
}

/// Returns the messages as a table.
fn table(name: &str, recorded: &Recorded) -> Table {
    let mut table = Table::new(name, ["from", "to", "sent ms", "arrived ms"]);
    for m in &recorded.messages {
        let (sent, taken) = (recorded.ms(m.sent), recorded.ms(m.taken));
        table.row([m.from.into(), m.to.into(), sent.into(), taken.into()]);
    }
    table
}

/// Draws recorded messages: a line for each host, time to the right.
fn diagram(title: &str, hosts: usize, recorded: &Recorded, longest: f64) -> Drawing {
    let (left, width, gap) = (3.0, 24.0, 2.4);
    let x = |ms: f64| left + width * ms / longest;
    let y = |host: usize| 0.8 + gap * host as f64;
    let height = y(hosts - 1) + 2.4;
    let mut drawing = Drawing::new(title, left + width + 2.0, height);
    for host in 0..hosts {
        drawing = drawing
            .with(Shape::words((0.0, y(host)), format!("host {host}")))
            .with(Shape::line((left, y(host)), (left + width, y(host)), true));
    }
    for m in &recorded.messages {
        let from = (x(recorded.ms(m.sent)), y(m.from));
        drawing = drawing.with(Shape::arrow(from, (x(recorded.ms(m.taken)), y(m.to)), "", false));
    }
    let axis = y(hosts - 1) + 1.2;
    let step = (longest / 6.0).ceil().max(1.0);
    let mut ms = 0.0;
    while ms <= longest {
        drawing = drawing
            .with(Shape::line((x(ms), axis - 0.2), (x(ms), axis), false))
            .with(Shape::centred((x(ms), axis + 0.5), format!("{ms:.0} ms")));
        ms += step;
    }
    drawing.with(Shape::line((left, axis), (left + width, axis), false))
}

/// Records the fence of member 0, after puts to all others.
fn fence(hosts: usize, window: usize) -> Result<Recorded> {
    record(hosts, |me| {
        let mut rma = Rma::new(me)?;
        let memory = rma.allocate::<u8>(me, 8)?;
        if me.rank() == 0 {
            (1..hosts).try_for_each(|to| rma.put(&memory, to, 0, &[1; 8]))?;
        }
        // All puts are complete in the targets before the fence: only its own messages follow.
        std::thread::sleep(4 * LATENCY);
        me.gather(0)?;
        let begin = Instant::now();
        if me.rank() == 0 {
            fence_all_asking(&mut rma, Window { k: window, random: false })?;
        } else {
            // The others send nothing of their own meanwhile.
            std::thread::sleep(LATENCY * (2 * hosts as u32 + 4));
        }
        let end = Instant::now();
        // Only the fence of member 0 is of interest.
        let times =
            if me.rank() == 0 { (begin, end) } else { (begin + Duration::from_secs(3600), begin) };
        me.gather(0)?;
        Ok(times)
    })
}

/// A49: the serial and the pipelined fence, and the architecture.
pub(in crate::reproduce) fn fence_diagrams(_: &Lab) -> Result<Outcome> {
    let hosts = 5;
    let mut runs = Vec::new();
    for window in [1, 2, hosts - 1] {
        let mut run = fence(hosts, window)?;
        run.messages.retain(|m| m.from == 0 || m.to == 0);
        runs.push((window, run));
    }
    let longest = runs.iter().map(|(_, run)| run.took()).fold(0.0, f64::max) * 1.04;
    let mut panels = vec![Panel::Drawing(architecture())];
    let mut outcome = Outcome::default();
    let mut told = Vec::new();
    for (window, run) in &runs {
        let figure = if *window == 1 { "Fig. 3.1, serial" } else { "Fig. 3.2, pipelined" };
        let title = format!("{figure}: K = {window}, {:.1} ms", run.took());
        panels.push(Panel::Drawing(diagram(&title, hosts, run, longest)));
        outcome = outcome.table(table(&format!("messages-k{window}"), run));
        told.push(format!("{:.1} ms with K = {window}", run.took()));
    }
    let [serial, .., all] = &runs[..] else { return Err("no fence was recorded".into()) };
    let counts: Vec<_> = runs.iter().map(|(_, run)| run.messages.len()).collect();
    let needed = 2 * (hosts - 1);
    Ok(outcome
        .claim(Claim::new(
            "a client that waits for each acknowledgement before the next request, and a new \
             fence that sends K requests before it waits",
            format!("{} for {} servers", told.join(", "), hosts - 1),
            serial.1.took() > 1.5 * all.1.took(),
        ))
        .claim(
            Claim::new(
                "2 (N - 1) messages of a fence",
                format!("{counts:?} messages between {hosts} hosts, where 2 (N - 1) = {needed}"),
                counts.iter().all(|&count| count == needed),
            )
            .because(
                "messages that do not belong to the fence, such as signs of life, were sent \
                 meanwhile",
            ),
        )
        .note(format!(
            "arrows are messages as they were sent, between hosts that are threads; \
             each takes {} ms",
            LATENCY.as_millis()
        ))
        .note(
            "the first panel is a drawing of a concept, after Figs. 1.1 to 1.4 and 2.1: the \
             book's page rma describes it",
        )
        .figure(Figure {
            title: "ARMCI, Figs. 2.1, 3.1 and 3.2: the fence".to_owned(),
            columns: 2,
            panels,
        }))
}

/// Draws clients, the memory that they share, and the server of two hosts.
fn architecture() -> Drawing {
    let mut drawing =
        Drawing::new("concept: clients, a server per host, one-sided put", 29.0, 12.0);
    for (host, x) in [(0, 0.6), (1, 16.4)] {
        drawing = drawing
            .with(Shape::boxed((x, 0.2), (12.0, 10.6), "", 1.0))
            .with(Shape::words((x + 0.4, 1.0), format!("host {host}")))
            .with(Shape::boxed((x + 0.6, 2.0), (3.4, 1.6), "client", 1.0))
            .with(Shape::boxed((x + 4.3, 2.0), (3.4, 1.6), "client", 1.0))
            .with(Shape::boxed((x + 8.0, 2.0), (3.4, 1.6), "server", 0.8))
            .with(Shape::boxed((x + 0.6, 5.4), (10.8, 1.8), "shared memory of the host", 0.9))
            .with(Shape::boxed((x + 0.6, 8.6), (10.8, 1.6), "messages (network)", 1.0));
        for at in [2.3, 6.0, 9.7] {
            drawing = drawing.with(Shape::arrow((x + at, 3.6), (x + at, 5.4), "", false));
        }
    }
    drawing
        .with(Shape::arrow((12.0, 9.4), (17.0, 9.4), "put", false))
        .with(Shape::arrow((17.0, 9.9), (12.0, 9.9), "", true))
        .with(Shape::words(
            (0.6, 11.5),
            "the server stores what a put brings, whatever its \
             clients do; a fence asks it for an acknowledgement",
        ))
}

/// A28: the barrier of two exchanges.
pub(in crate::reproduce) fn barrier_diagram(lab: &Lab) -> Result<Outcome> {
    let hosts = lab.scale.pick(4, 4, 8);
    let run = record(hosts, |me| {
        let mut rma = with_radix(me, 2)?;
        let memory = rma.allocate::<u8>(me, 8)?;
        let others = (1..hosts).map(|ahead| (me.rank() + ahead) % hosts);
        for to in others {
            rma.put(&memory, to, 0, &[1; 8])?;
        }
        std::thread::sleep(4 * LATENCY);
        me.gather(0)?;
        let begin = Instant::now();
        rma.sync()?;
        rma.sync()?;
        let end = Instant::now();
        me.gather(0)?;
        Ok((begin, end))
    })?;
    let rounds = hosts.ilog2() as usize;
    let expected = 2 * rounds * hosts;
    let least = 2.0 * rounds as f64 * LATENCY.as_secs_f64() * 1e3;
    let title =
        format!("messages of the barrier between {hosts} hosts: two exchanges of {rounds} rounds");
    let panels = vec![
        Panel::Drawing(blocks()),
        Panel::Drawing(diagram(&title, hosts, &run, run.took() * 1.04)),
        Panel::Drawing(pseudo_code()),
    ];
    let claim = Claim::new(
        format!("2 log2 N messages of each process: {expected} of {hosts}"),
        format!(
            "{} messages, in {:.1} ms, where {} messages one after the other take {least:.0} ms",
            run.messages.len(),
            run.took(),
            2 * rounds
        ),
        (run.messages.len() as f64 / expected as f64 - 1.0).abs() < 0.2,
    );
    Ok(Outcome::default()
        .claim(claim.because(
            "messages that do not belong to the barrier, such as signs of \
             life, were sent meanwhile",
        ))
        .note(
            "the block diagram and the pseudo-code are drawings of a concept: the book's page \
             one-exchange-sync describes the algorithm, and what is changed (one exchange, no \
             reset of counters)",
        )
        .table(table("messages", &run))
        .figure(Figure {
            title: "ARMCI, Figs. 4.1 and 4.2: fence and barrier in one".to_owned(),
            columns: 1,
            panels,
        }))
}

fn blocks() -> Drawing {
    let mut drawing = Drawing::new("concept: counters of clients and servers", 30.0, 10.4);
    for (host, x) in [(0, 0.6), (1, 16.4)] {
        drawing = drawing
            .with(Shape::boxed((x, 0.2), (12.8, 8.6), "", 1.0))
            .with(Shape::words((x + 0.4, 1.0), format!("host {host}")))
            .with(Shape::boxed((x + 0.6, 2.0), (5.4, 2.4), "client\nop_init[0 .. N]", 0.9))
            .with(Shape::boxed((x + 6.8, 2.0), (5.4, 2.4), "server", 0.9))
            .with(Shape::boxed((x + 3.4, 6.0), (6.0, 2.0), "op_done\n(shared memory)", 0.75))
            .with(Shape::arrow((x + 9.4, 4.4), (x + 7.6, 6.0), "", false))
            .with(Shape::arrow((x + 5.0, 6.0), (x + 3.4, 4.4), "", true));
    }
    drawing.with(Shape::arrow((6.6, 2.25), (23.2, 2.25), "put", false)).with(Shape::words(
        (0.6, 9.6),
        "a put adds 1 to op_init of the client and, stored, to op_done of the server; a \
         barrier reads op_done",
    ))
}

fn pseudo_code() -> Drawing {
    let lines = [
        "barrier:",
        "1  sum of op_init over all processes, by pairwise exchange: log2 N rounds",
        "2  wait until op_done of the own server is the sum for it",
        "3  pairwise exchange again, as a barrier: log2 N rounds",
        "the thesis resets the counters here; Syncline's only grow, so that an early put is not \
         lost",
    ];
    let texts = lines.into_iter().enumerate();
    let texts =
        texts.map(|(n, line)| Shape::words((if n == 0 { 0.2 } else { 1.0 }, 0.6 + n as f64), line));
    Drawing::new("concept: pseudo-code", 30.0, 5.6).all(texts)
}

/// A state of the lock: the last in the queue; for each member its successor, and whether it waits.
type State = (Option<usize>, Vec<(Option<usize>, bool)>);

/// A41: the states of the queue of a software queue lock.
pub(in crate::reproduce) fn queue_states(lab: &Lab) -> Result<Outcome> {
    let states = states(lab)?;
    let names = [
        "(a) process 1 holds the lock",
        "(b) process 2 waits",
        "(c) process 3 waits",
        "(d) process 1 has released: 2 holds",
        "(e) process 2 has released: 3 holds",
    ];
    // The members that are in the queue, in the figure of the thesis: the holder first.
    let expected: [&[usize]; 5] = [&[0], &[0, 1], &[0, 1, 2], &[1, 2], &[2]];
    let mut panels = Vec::new();
    let mut table =
        Table::new("states", ["state", "tail", "process", "next", "locked", "in the queue"]);
    let mut right = 0;
    for ((name, (tail, links)), queue) in names.iter().zip(&states).zip(expected) {
        let last = queue.last().copied();
        let chained = queue.windows(2).all(|pair| links[pair[0]].0 == Some(pair[1]));
        let waiting = queue.iter().skip(1).all(|&member| links[member].1);
        let holder = queue.first().is_some_and(|&member| !links[member].1);
        right += usize::from(*tail == last && chained && waiting && holder);
        let told =
            |rank: Option<usize>| rank.map_or("null".to_owned(), |rank| (rank + 1).to_string());
        for (member, (next, waits)) in links.iter().enumerate() {
            let inside = if queue.contains(&member) { "yes" } else { "no" };
            let waits = if *waits { "true" } else { "false" };
            table.row([
                (*name).into(),
                told(*tail).into(),
                (member + 1).into(),
                told(*next).into(),
                waits.into(),
                inside.into(),
            ]);
        }
        panels.push(Panel::Drawing(state(name, *tail, links, queue)));
    }
    Ok(Outcome::default()
        .claim(Claim::new(
            "five states of the queue, in which the tail points to the last process and the \
             others wait on their own flags",
            format!("{right} of {} recorded states are these", names.len()),
            right == names.len(),
        ))
        .note(
            "words of a lock that three threads use, read between their steps; the book's \
             page lock-mcs describes the algorithm. Figs. 5.1 and 5.2, the ticket lock, are on \
             the page lock-ticket",
        )
        .table(table)
        .figure(Figure {
            title: "ARMCI, Fig. 5.3: states of the distributed lock".to_owned(),
            columns: 2,
            panels,
        }))
}

/// Takes the lock by three threads, one after the other, and reads its words between the steps.
fn states(lab: &Lab) -> Result<Vec<State>> {
    let lock = Lock::<Mcs, ()>::new(3, ())?;
    let release: [_; 3] = std::array::from_fn(|_| std::sync::atomic::AtomicBool::new(false));
    let order = std::sync::atomic::Ordering::Acquire;
    let until = |what: &dyn Fn(&State) -> bool| -> Result<State> {
        let start = Instant::now();
        loop {
            let state = lock.links();
            if what(&state) {
                return Ok(state);
            }
            lab.signals.check()?;
            if start.elapsed() > Duration::from_secs(20) {
                return Err("the lock does not reach the next state".into());
            }
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let (lock, release, holder) = (&lock, &release, || lock.holder());
        let enter = |rank: usize| {
            scope.spawn(move || -> Result<()> {
                let mut member = lock.member(rank)?;
                let held = member.lock()?;
                while !release[rank].load(order) {
                    std::thread::sleep(Duration::from_micros(100));
                }
                drop(held);
                Ok(())
            })
        };
        let script = || -> Result<Vec<State>> {
            let mut states = Vec::new();
            enter(0);
            states.push(until(&|s| s.0 == Some(0) && holder() == Some(0))?);
            enter(1);
            states.push(until(&|s| s.1[0].0 == Some(1) && s.1[1].1)?);
            enter(2);
            states.push(until(&|s| s.1[1].0 == Some(2) && s.1[2].1)?);
            release[0].store(true, std::sync::atomic::Ordering::Release);
            states.push(until(&|s| !s.1[1].1 && holder() == Some(1))?);
            release[1].store(true, std::sync::atomic::Ordering::Release);
            states.push(until(&|s| !s.1[2].1 && holder() == Some(2))?);
            Ok(states)
        };
        let states = script();
        // After an error, too, no thread may stay.
        release.iter().for_each(|word| word.store(true, std::sync::atomic::Ordering::Release));
        states
    })
}

fn state(
    name: &str,
    tail: Option<usize>,
    links: &[(Option<usize>, bool)],
    queue: &[usize],
) -> Drawing {
    let x = |place: usize| 5.4 + 7.0 * place as f64;
    let place = |member: usize| queue.iter().position(|&other| other == member);
    let mut drawing =
        Drawing::new(name, 25.4, 6.4).with(Shape::boxed((0.2, 0.6), (3.4, 1.4), "tail", 0.85));
    for (n, &member) in queue.iter().enumerate() {
        let (next, waits) = links[member];
        let (flag, light) =
            if waits { ("locked: true, waits", 0.7) } else { ("holds the lock", 0.95) };
        drawing = drawing.with(Shape::boxed(
            (x(n), 3.2),
            (5.6, 2.4),
            format!("process {}\n{flag}", member + 1),
            light,
        ));
        if let Some(to) = next.and_then(place).filter(|to| *to > n) {
            drawing = drawing.with(Shape::arrow((x(n) + 5.6, 4.4), (x(to), 4.4), "next", false));
        }
    }
    if let Some(at) = tail.and_then(place) {
        drawing = drawing.with(Shape::arrow((3.6, 1.3), (x(at) + 1.4, 3.2), "", false));
    }
    drawing
}
