//! LazySolve: data are sent to a worker before it is started.

use std::time::Instant;

use syncline_farm::Farm;

use crate::error::Result;
use crate::farm;
use crate::plot::{Drawing, Figure, Panel, Shape};
use crate::reproduce::lab::Lab;
use crate::reproduce::outcome::{Claim, Outcome, Table};

/// F7: a manager sends, then spawns, and receives the results later.
pub(in crate::reproduce) fn lazy_solve(lab: &Lab) -> Result<Outcome> {
    let count = lab.scale.pick(2, 6, 6);
    let program = farm::successor()?;
    let mut farm = Farm::new()?;
    let start = Instant::now();
    let ms = || start.elapsed().as_secs_f64() * 1e3;
    let mut times = Vec::new();
    let mut workers = Vec::new();
    for data in 0..count as u64 {
        lab.signals.check()?;
        let worker = farm.reserve()?;
        farm.send(worker, &data)?;
        let sent = ms();
        farm.start(worker, &program)?;
        times.push([sent, ms(), 0.0]);
        workers.push((worker, data));
    }
    let mut right = 0;
    for ((worker, data), times) in workers.iter().zip(&mut times) {
        let answer: u64 = farm.recv(*worker)?;
        times[2] = ms();
        right += usize::from(answer == data + 1);
        farm.wait(*worker, None)?;
    }
    let mut table =
        Table::new("workers", ["worker", "data sent ms", "spawned ms", "result received ms"]);
    let longest = times.iter().map(|t| t[2]).fold(1.0, f64::max);
    let (left, width) = (4.0, 24.0);
    let x = |ms: f64| left + width * ms / longest;
    let mut drawing = Drawing::new(
        "manager: send, then spawn, for each worker; later it receives",
        left + width + 2.0,
        2.0 + 1.6 * (count as f64 + 1.0),
    );
    for (n, [sent, spawned, received]) in times.iter().enumerate() {
        table.row([(n + 1).into(), (*sent).into(), (*spawned).into(), (*received).into()]);
        let y = 0.6 + 1.6 * n as f64;
        drawing = drawing
            .with(Shape::words((0.0, y + 0.5), format!("worker {}", n + 1)))
            .with(Shape::line((x(*sent), y - 0.1), (x(*sent), y + 1.1), false))
            .with(Shape::boxed((x(*spawned), y), (x(*received) - x(*spawned), 1.0), "", 0.8))
            .with(Shape::line((x(*received), y - 0.1), (x(*received), y + 1.1), false));
    }
    let y = 1.0 + 1.6 * count as f64;
    drawing =
        drawing.with(Shape::arrow((left, y), (left + width, y), "", false)).with(Shape::words(
            (left, y + 0.9),
            format!(
                "0 to {longest:.1} ms. Line: data sent; \
                 box: the process lives; line: result received"
            ),
        ));
    let early = times.iter().all(|[sent, spawned, _]| sent <= spawned);
    Ok(Outcome::default()
        .claim(Claim::new(
            "data that are sent to a worker before it is spawned, and results that are received \
             later",
            format!(
                "{right} of {count} workers received what was sent before their birth, and \
                 answered within {longest:.1} ms"
            ),
            early && right == count,
        ))
        .table(table)
        .figure(Figure::of("Aldor: LazySolve", Panel::Drawing(drawing))))
}
