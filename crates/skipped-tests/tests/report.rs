//! Lists the tests that could not run. It has no harness, so what it prints is shown.

#![allow(clippy::print_stdout, reason = "a report is printed")]

fn main() {
    let skipped = skipped_tests::take();
    if skipped.is_empty() {
        println!("\nno test was skipped\n");
        return;
    }
    println!("\n{} tests or groups of tests were skipped:", skipped.len());
    for line in skipped {
        println!("  {}", line.trim_start_matches("SKIPPED: "));
    }
    println!();
}
