//! Medians, percentiles and a straight line. Nothing here knows what is measured.

use std::time::Duration;

/// Measured times, sorted.
pub struct Sample(Vec<Duration>);

impl Sample {
    /// None without a single measurement.
    pub fn of(mut times: Vec<Duration>) -> Option<Sample> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Sample(times))
    }

    /// The smallest measurement that at least this share of all does not exceed (nearest rank).
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).or(self.0.last()).copied().unwrap_or_default()
    }

    pub fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// The middle half, as a sign of how steady the machine was.
    pub fn quartiles(&self) -> (Duration, Duration) {
        (self.percentile(25), self.percentile(75))
    }
}

/// A straight line through points by least squares: `y = fixed + slope × x`.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub fixed: f64,
    pub slope: f64,
}

/// None for fewer than two different x.
pub fn fit(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    if points.len() < 2 || spread == 0.0 {
        return None;
    }
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
    Some(Line {
        fixed: mean_y - slope * mean_x,
        slope,
    })
}

/// How `y` grows with `x`, as the exponent of a power: the slope of a line through the logarithms. None for fewer than two different x
/// above zero.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .filter(|(x, y)| *x > 0.0 && *y > 0.0)
        .map(|(x, y)| (x.ln(), y.ln()))
        .collect();
    Some(fit(&logs)?.slope)
}

/// Milliseconds.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Microseconds.
pub fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests;
