//! Small plots of text for the documents: a curve over time, and how something grows with a number.
//!
//! Never: chooses what is shown. An axis begins at zero, so that a curve that looks flat is flat.

use std::fmt::Write as _;

const WIDTH: usize = 60;
const HEIGHT: usize = 8;
const BAR: usize = 40;

/// A curve over time, from zero to its highest point: each column the mean of its part of the time. `points` are seconds and
/// values; empty without any.
pub fn curve(title: &str, points: &[(f64, f64)]) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let span = (last.0 - first.0).max(f64::MIN_POSITIVE);
    let mut columns = [(0.0, 0_u32); WIDTH];
    for (at, value) in points {
        let column = ((at - first.0) / span * WIDTH as f64) as usize;
        if let Some((sum, count)) = columns.get_mut(column.min(WIDTH - 1)) {
            *sum += value;
            *count += 1;
        }
    }
    let means = columns.map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)));
    let top = means.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut text = format!("{title}\n");
    for row in (0..HEIGHT).rev() {
        let label = if row == HEIGHT - 1 { short(top) } else { String::new() };
        let _ = write!(text, "{label:>8} │");
        for mean in means {
            let fits = mean.is_some_and(|mean| ((mean / top * HEIGHT as f64) as usize).min(HEIGHT - 1) == row);
            text.push(if fits { '•' } else { ' ' });
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let _ = writeln!(text, "{:>8} └{}", 0, "─".repeat(WIDTH));
    let _ = writeln!(text, "{:>8}  0 min{:>width$}", "", minutes(span), width = WIDTH - 5);
    text
}

/// How a quantity grows with a number: a bar for each, on a logarithmic scale, and `|` where it would end if it grew in
/// proportion from the first one on. Empty without a quantity above zero.
pub fn growth(title: &str, unit: &str, points: &[(f64, f64)]) -> String {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(n, y)| *n > 0.0 && *y > 0.0).collect();
    let Some((n0, y0)) = points.first().copied() else {
        return String::new();
    };
    let proportional = |n: f64| y0 * n / n0;
    let most = points.iter().map(|(n, y)| y.max(proportional(*n))).fold(y0, f64::max);
    // The first bar has a tenth of the width, so that something is to be seen of it.
    let place = |y: f64| {
        let part = if most > y0 {
            (y / y0).ln() / (most / y0).ln()
        } else {
            0.0
        };
        BAR / 10 + (part.max(-0.1) * (BAR - BAR / 10) as f64).round() as usize
    };
    let mut text = format!("{title}\n");
    for (n, y) in points {
        let (end, mark) = (place(y), place(proportional(n)));
        let cell = |at: usize| match at {
            at if at + 1 == mark => '|',
            at if at < end => '█',
            _ => ' ',
        };
        let bar: String = (0..end.max(mark)).map(cell).collect();
        let _ = writeln!(text, "{n:>8} {:>12} {bar}", format!("{} {unit}", short(y)));
    }
    text
}

/// A number with as many digits as say something.
pub fn short(number: f64) -> String {
    let digits = match number.abs() {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.digits$}")
}

fn minutes(seconds: f64) -> String {
    format!("{} min", short(seconds / 60.0))
}

#[cfg(test)]
mod tests;
