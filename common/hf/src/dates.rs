//! strftime for chat templates that print the date (Llama 3.x). UTC, English names, the directives that such templates
//! use; any other is an error rather than a wrong prompt.

use crate::Error;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

struct Civil {
    year: i64,
    month: usize, // 1-12
    day: i64,     // 1-31
    day_of_year: i64,
    weekday: usize, // 0 is Monday
}

/// Howard Hinnant's days-to-civil algorithm, from days since 1970-01-01.
fn civil(days: i64) -> Civil {
    let shifted = days + 719_468; // from 0000-03-01
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_march_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_march_year + 2) / 153;
    let day = day_of_march_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 } as usize;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month - 1];
    let day_of_year = before + day + i64::from(leap && month > 2);
    Civil { year, month, day, day_of_year, weekday: (days + 3).rem_euclid(7) as usize }
}

/// `seconds` since 1970 in UTC, by a Python format string.
pub fn strftime(format: &str, seconds: i64) -> Result<String, Error> {
    let date = civil(seconds.div_euclid(86_400));
    let second_of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let twelve = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next();
        let padded = directive != Some('-'); // %-d: without the leading zero
        if !padded {
            directive = chars.next();
        }
        let number = |value: i64, width: usize| {
            if padded {
                format!("{value:0width$}")
            } else {
                value.to_string()
            }
        };
        let shown = match directive {
            Some('Y') => date.year.to_string(),
            Some('y') => number(date.year.rem_euclid(100), 2),
            Some('m') => number(date.month as i64, 2),
            Some('d') => number(date.day, 2),
            Some('e') => format!("{:2}", date.day),
            Some('j') => number(date.day_of_year, 3),
            Some('B') => MONTHS[date.month - 1].to_string(),
            Some('b' | 'h') => MONTHS[date.month - 1][..3].to_string(),
            Some('A') => DAYS[date.weekday].to_string(),
            Some('a') => DAYS[date.weekday][..3].to_string(),
            Some('H') => number(hour, 2),
            Some('I') => number(twelve, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_string(),
            Some('F') => format!("{}-{:02}-{:02}", date.year, date.month, date.day),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') => "%".to_string(),
            other => {
                let shown = other.map_or("a % at its end".to_string(), |c| format!("%{c}"));
                return Err(Error::Invalid(format!("strftime_now does not know {shown} in '{format}'")));
            }
        };
        out.push_str(&shown);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::strftime;

    // Expected values from `date -u -d @N +FORMAT`.
    #[test]
    fn matches_date() {
        assert_eq!(strftime("%d %b %Y %H:%M:%S %a %j", 1_709_210_096).unwrap(), "29 Feb 2024 12:34:56 Thu 060");
        assert_eq!(strftime("%A, %B %-d, %y %I%p", 951_868_800).unwrap(), "Wednesday, March 1, 00 12AM");
        assert_eq!(strftime("%F %T 100%%", -1).unwrap(), "1969-12-31 23:59:59 100%");
        assert!(strftime("%Q", 0).is_err());
        assert!(strftime("%", 0).is_err());
    }
}
