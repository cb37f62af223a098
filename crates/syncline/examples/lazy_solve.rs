//! A small version of `LazySolve` of Moreno Maza, Stephenson, Watt and Xie, "Multiprocessed
//! parallelism support in ALDOR" (2007). The manager sends each worker its task before the worker
//! starts, spawns it, and receives from any worker that is done; a worker receives, works and
//! sends. Here a task is a number, and its result is two factors, to be factored in turn, or none.

use syncline::Farm;
use syncline::farm::{FarmError, Program, Vpid};

fn factors(n: u64) -> Option<(u64, u64)> {
    let factor = (2..).take_while(|d| d * d <= n).find(|d| n.is_multiple_of(*d))?;
    Some((factor, n / factor))
}

fn main() -> Result<(), FarmError> {
    if let Some(mut worker) = Farm::join()? {
        let task: u64 = worker.recv(Vpid::MANAGER)?;
        return worker.send(Vpid::MANAGER, &(task, factors(task)));
    }
    let (mut manager, this) = (Farm::new()?, Program::this()?);
    let (mut primes, mut tasks, mut working) = (Vec::new(), vec![600_851_475_143], 0);
    while !tasks.is_empty() || working > 0 {
        for task in tasks.drain(..) {
            let worker = manager.reserve()?;
            manager.send(worker, &task)?;
            manager.start(worker, &this)?;
            working += 1;
        }
        let (_, (task, found)) = manager.recv_any::<(u64, Option<(u64, u64)>)>()?;
        working -= 1;
        match found {
            Some((one, other)) => tasks.extend([one, other]),
            None => primes.push(task),
        }
    }
    primes.sort_unstable();
    println!("{primes:?}");
    Ok(())
}
