//! `wayside bench`.

use super::text::say;
use crate::cli::{CompareArgs, HoldArgs, KeysArgs, Output, QuickArgs, RecoveryArgs, ReportArgs};
use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayside_bench::{ContestOptions, KeysOptions, Options, Records, RecoveryOptions, Wishes};

/// Shorter, and a median would rest on a handful of rounds.
const SHORTEST: Duration = Duration::from_secs(2);

/// `wayside bench quick`: this very program is the switch that is measured.
pub fn quick(args: &QuickArgs) -> Result<(), Failure> {
    if args.time < SHORTEST {
        return Err(Failure::usage(format!(
            "--time {:?} is too short to measure anything; 2s is the least",
            args.time
        )));
    }
    let options =
        Options { wayside: own_file()?, how_long: args.time, hold_latency: !args.let_idle, allocations: None };
    let report = wayside_bench::run(&options).map_err(Failure::unavailable)?;
    match args.output {
        Output::Json => say(&report.to_json()),
        Output::Text => say(&report.to_string()),
    }
    Ok(())
}

/// `wayside bench recovery`: this very program is the switch that is killed.
pub fn recovery(args: &RecoveryArgs) -> Result<(), Failure> {
    let kind = if args.short { RecoveryOptions::short } else { RecoveryOptions::whole };
    let options = RecoveryOptions { at_hook: args.hook, ..kind(own_file()?) };
    let recovery = wayside_bench::run_recovery(&options).map_err(Failure::unavailable)?;
    match args.output {
        Output::Json => say(&recovery.to_json()),
        Output::Text => say(&recovery.to_string()),
    }
    match recovery.broken().next() {
        None => Ok(()),
        Some(why) => Err(Failure::unavailable(why)),
    }
}

/// `wayside bench keys`: this very program is the switches that are measured.
pub fn keys(args: &KeysArgs) -> Result<(), Failure> {
    let kind = if args.short { KeysOptions::short } else { KeysOptions::whole };
    let options = KeysOptions { stores: args.stores.clone(), ..kind(own_file()?) };
    let keys = wayside_bench::run_keys(&options).map_err(Failure::unavailable)?;
    match args.output {
        Output::Json => say(&keys.to_json()),
        Output::Text => say(&keys.to_string()),
    }
    match keys.broken().next() {
        None => Ok(()),
        Some(why) => Err(Failure::unavailable(why)),
    }
}

/// `wayside bench report`: what people use today, beside this very program's switch; and what the papers report.
pub fn report(args: &ReportArgs) -> Result<(), Failure> {
    if args.workloads.iter().any(|name| name == "list") {
        say(&wayside_bench::workload_list());
        return Ok(());
    }
    if !args.records.is_empty() {
        return from_records(args);
    }
    let kind = if args.short { ContestOptions::short } else { ContestOptions::whole };
    let options = kind(own_file()?).with(&Wishes {
        workloads: args.workloads.clone(),
        services: args.services.clone(),
        clients: args.clients,
        rounds: args.rounds,
        thinks: args.thinks.iter().copied().map(Duration::from_micros).collect(),
    });
    // On stderr, before it begins: whoever has not so much time ends it.
    eprintln!("{}", options.plan());
    let contest = wayside_bench::run_contest(&options).map_err(Failure::unavailable)?;
    say(&contest.to_string());
    write(&args.out.with_extension("json"), &(contest.to_json() + "\n"))?;
    let mut broken: Vec<String> = contest.broken().take(1).collect();
    let mut records = Records::from(contest);
    match options.papers.as_ref().map(wayside_bench::run_calibrated) {
        Some(Ok(papers)) => {
            say(&papers.to_string());
            let json = papers.to_json() + "\n";
            write(&papers_beside(&args.out, "json"), &json)?;
            records.add(&json).expect("a record that was just made is of this version");
        }
        // What was measured is worth its page without them.
        Some(Err(why)) => broken.push(format!("the papers' headlines: {why}")),
        None => {}
    }
    write_page(&args.out, &records)?;
    match broken.into_iter().next() {
        None => Ok(()),
        Some(why) => Err(Failure::unavailable(why)),
    }
}

/// Where the record of the papers' headlines is kept: `report.html` has `report-papers.json`, and `.csv`.
fn papers_beside(page: &Path, extension: &str) -> PathBuf {
    let stem = page.file_stem().unwrap_or_default().to_string_lossy();
    page.with_file_name(format!("{stem}-papers.{extension}"))
}

/// The page, and beside it the runs and the figures of the papers' headlines that are on it.
fn write_page(page: &Path, records: &Records) -> Result<(), Failure> {
    if let Some(csv) = records.runs_to_csv() {
        write(&page.with_extension("csv"), &csv)?;
    }
    if let Some(csv) = records.papers_to_csv() {
        write(&papers_beside(page, "csv"), &csv)?;
    }
    write(page, &wayside_bench::page(records))
}

fn from_records(args: &ReportArgs) -> Result<(), Failure> {
    let mut records = Records::default();
    for path in &args.records {
        let added = records.add(&read(path)?);
        added.map_err(|_| Failure::usage(format!("{}: no record of this version", path.display())))?;
    }
    write_page(&args.out, &records)
}

/// `wayside bench compare`.
pub fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let text = wayside_bench::compare(&read(&args.before)?, &read(&args.after)?).map_err(Failure::usage)?;
    say(&text);
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::usage(format!("can't read {}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::usage(format!("can't write {}: {error}", path.display())))?;
    say(&format!("Kept as {}.", path.display()));
    Ok(())
}

/// `wayside bench hold`: until its standard input ends.
pub fn hold(args: &HoldArgs) -> Result<(), Failure> {
    wayside_bench::hold(&args.endpoint, args.count).map_err(Failure::unavailable)
}

fn own_file() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::system("can't find this program's own file", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_records_of_a_page_lie_beside_it() {
        let beside = papers_beside(Path::new("somewhere/report.html"), "json");
        assert_eq!(beside, Path::new("somewhere/report-papers.json"));
        assert_eq!(papers_beside(Path::new("report"), "csv"), Path::new("report-papers.csv"));
    }
}
