//! Drawings: each format draws every request once, whatever the names, and is reproducible.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{I, Plan as Shape, Random, X, seeds};
use syncline_overlay::{Initial, Plan, Snapshot, snapshot::Format, snapshot::RequestOwner};

const FORMATS: [Format; 3] = [Format::Text, Format::Dot, Format::Svg];

/// Names with characters that need escaping, and other unusual names.
const NAMES: [&str; 13] = [
    "a",
    "R&D",
    "b<c>&amp;\"d'",
    "\\N\\\"",
    "line\nbreak",
    "bell\u{7}\u{0}\u{FFFE}",
    "Größe 東京",
    "■□●○◆◇│",
    "",
    "]]></svg><script>alert(1)</script>",
    "x [label=\"r0_0\"];",
    "--",
    "a name of a good many more characters than fit",
];

/// Returns a random plan in a random state, perhaps deadlocked, with handles from outside. Half of
/// the plans have unusual names.
fn snapshot(random: &mut Random) -> Snapshot {
    let shape = Shape::random(random, 1..=9, 1..=6, 4);
    let odd = random.within(0..=1) == 1;
    let mut name = |kind: &str, n: usize| match odd {
        true => NAMES[random.within(0..=NAMES.len() - 1)].to_owned(),
        false => format!("{kind}{n}"),
    };
    let mut plan = Plan::new();
    let places: Vec<_> = (0..shape.locations).map(|l| plan.location(name("l", l))).collect();
    for (t, requests) in shape.tasks.iter().enumerate() {
        plan.task(name("t", t), requests.iter().map(|&(l, kind)| (places[l], kind)));
    }
    for (l, &place) in places.iter().enumerate() {
        let mut users: Vec<_> = plan
            .tasks()
            .zip(&shape.tasks)
            .filter(|(_, list)| list.iter().any(|r| r.0 == l))
            .map(|u| u.0)
            .collect();
        random.shuffle(&mut users);
        if random.within(0..=2) == 0 {
            plan.order(place, users);
        }
    }
    let mut snapshot = plan.start(&Initial::Program).unwrap();
    for location in &mut snapshot.locations {
        if let Some(mut handle) =
            location.queue.first().cloned().filter(|_| random.within(0..=3) == 0)
        {
            (handle.who, handle.granted) = (RequestOwner::Handle, false);
            handle.kind = [I, X][random.within(0..=1)];
            location.queue.push(handle);
        }
    }
    if random.within(0..=1) == 1 {
        for task in &mut snapshot.tasks {
            task.iteration = random.number() >> 40;
            task.running = random.within(0..=1) == 1;
            task.since = Some(Duration::from_micros(random.number() >> 40));
        }
    }
    snapshot
}

fn requests(snapshot: &Snapshot) -> usize {
    snapshot.locations.iter().map(|l| l.queue.len()).sum()
}

/// Counts the marks in the rows of the grid.
fn marks_of_text(text: &str) -> usize {
    let rows = text.lines().filter_map(|line| line.split_once(" │ "));
    let rows = rows.filter(|(rank, _)| rank.trim().parse::<usize>().is_ok());
    rows.map(|(_, row)| row.chars().filter(|c| "■□●○◆◇".contains(*c)).count()).sum()
}

/// Counts the nodes of requests, each named by its location and rank.
fn marks_of_dot(dot: &str) -> usize {
    let nodes = dot.lines().filter_map(|line| line.trim().split_once(" [shape="));
    let mut names: Vec<&str> = nodes.map(|(name, _)| name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "{dot}");
    all
}

/// Counts the groups of requests of a drawing that must be well-formed XML without scripts.
fn marks_of_svg(svg: &str) -> usize {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    assert!(document.descendants().all(|node| !node.has_tag_name("script")), "{svg}");
    let class = |node: &roxmltree::Node<'_, '_>| node.attribute("class").unwrap_or("").to_owned();
    let of_request =
        |node: &roxmltree::Node<'_, '_>| class(node).split(' ').any(|name| name == "request");
    document.descendants().filter(of_request).count()
}

#[test]
fn every_request_is_drawn_once_in_each_format() {
    for seed in seeds(0, 2000) {
        let snapshot = snapshot(&mut Random::new(seed));
        let [text, dot, svg] = FORMATS.map(|format| snapshot.draw(format));
        let all = requests(&snapshot);
        assert_eq!(marks_of_text(&text), all, "seed {seed}: {text}");
        assert_eq!(marks_of_dot(&dot), all, "seed {seed}: {dot}");
        assert_eq!(marks_of_svg(&svg), all, "seed {seed}: {svg}");
        // The same bytes on each call, and no characters that control a terminal.
        for (format, drawing) in FORMATS.into_iter().zip([text, dot, svg]) {
            assert_eq!(snapshot.clone().draw(format), drawing, "seed {seed}");
            assert!(
                !drawing.contains(|c: char| c.is_control() && c != '\n'),
                "seed {seed}: {drawing:?}"
            );
        }
    }
}

#[test]
fn a_deadlock_is_red_in_each_format() {
    let seeds = seeds(0, 2000);
    let (count, mut dead) = (seeds.end - seeds.start, 0);
    for seed in seeds {
        let snapshot = snapshot(&mut Random::new(seed));
        let steps = snapshot.cycle().map_or(0, |cycle| cycle.len());
        dead += u64::from(steps > 0);
        let [text, dot, svg] = FORMATS.map(|format| snapshot.draw(format));
        assert_eq!(text.contains("\ndeadlock\n"), steps > 0, "seed {seed}: {text}");
        assert_eq!(dot.matches("penwidth=2, style=bold").count(), steps, "seed {seed}: {dot}");
        let waits = svg.lines().filter(|line| line.starts_with("<path class=\"deadlock\"")).count();
        assert!((steps..=2 * steps).contains(&waits), "seed {seed}: {svg}");
        assert_eq!(snapshot.depth().is_none(), steps > 0, "seed {seed}");
    }
    assert!(20 * dead > count, "{dead} dead: not a fair sample");
}

#[test]
fn graphviz_reads_what_is_drawn_for_it() {
    let dot = |input: &str| -> Option<String> {
        let mut child = Command::new("dot")
            .arg("-Tcanon")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        child.stdin.take()?.write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{input}");
        Some(String::from_utf8(output.stdout).unwrap())
    };
    if dot("digraph {}").is_none() {
        println!("skipped: graphviz is not installed");
        return;
    }
    for seed in seeds(0, 20) {
        let snapshot = snapshot(&mut Random::new(seed));
        dot(&snapshot.draw(Format::Dot)).unwrap();
    }
}

#[test]
fn a_plan_without_anything_is_drawn_too() {
    let mut plan = Plan::new();
    for format in FORMATS {
        assert!(
            plan.start(&Initial::Wave)
                .unwrap()
                .draw(format)
                .contains("0 tasks, 0 locations, 0 requests")
        );
    }
    plan.location("unused");
    plan.task("idle", []);
    let drawing = plan.start(&Initial::Wave).unwrap().draw(Format::Svg);
    assert!(drawing.contains("Without requests: idle (active)"), "{drawing}");
    assert_eq!(marks_of_svg(&drawing), 0);
    assert_eq!(plan.start(&Initial::Wave).unwrap().depth(), Some(1));
}

#[test]
fn a_text_stays_within_a_terminal_and_a_drawing_grows_with_its_requests() {
    let length = |blocks: usize, format| {
        let shape = Shape::grid(blocks, blocks);
        let mut plan = Plan::new();
        let places: Vec<_> = (0..shape.locations).map(|l| plan.location(format!("b{l}"))).collect();
        for (t, requests) in shape.tasks.iter().enumerate() {
            plan.task(format!("t{t}"), requests.iter().map(|&(l, kind)| (places[l], kind)));
        }
        let snapshot = plan.check(&Initial::Wave).unwrap();
        assert_eq!(snapshot.depth(), Some(2 * blocks - 1));
        let drawing = snapshot.draw(format);
        if format == Format::Text {
            assert!(drawing.lines().all(|line| line.chars().count() <= 110), "{drawing}");
        }
        drawing.len()
    };
    for format in FORMATS {
        let (small, large) = (length(8, format), length(32, format));
        assert!(
            large < 24 * small,
            "{format:?}: {small} and {large} bytes for 16 times as many tasks"
        );
    }
}

#[test]
fn names_are_escaped_and_read_back_as_they_are() {
    for name in NAMES.into_iter().filter(|name| !name.contains(|c: char| c.is_control())) {
        let mut plan = Plan::new();
        let place = plan.location(name);
        plan.task(name, [(place, X)]);
        let svg = plan.check(&Initial::Wave).unwrap().draw(Format::Svg);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let title = format!("{name}, active: exclusive on {name}, rank 1, granted");
        assert!(document.descendants().any(|node| node.text() == Some(&title)), "{name:?}: {svg}");
    }
}
