"""The weather at a place, from Open-Meteo. No key, no package beyond the standard library."""

import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

PLACES = "https://geocoding-api.open-meteo.com/v1/search"
FORECAST = "https://api.open-meteo.com/v1/forecast"
WORDS = {
    0: "clear",
    1: "mostly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "freezing fog",
    51: "light drizzle",
    53: "drizzle",
    55: "heavy drizzle",
    56: "freezing drizzle",
    57: "freezing drizzle",
    61: "light rain",
    63: "rain",
    65: "heavy rain",
    66: "freezing rain",
    67: "freezing rain",
    71: "light snow",
    73: "snow",
    75: "heavy snow",
    77: "snow grains",
    80: "light showers",
    81: "showers",
    82: "violent showers",
    85: "snow showers",
    86: "heavy snow showers",
    95: "thunderstorm",
    96: "thunderstorm with hail",
    99: "thunderstorm with hail",
}


def get(address: str, **query: Any) -> dict[str, Any]:
    url = f"{address}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found


def find(places: str, name: str) -> dict[str, Any] | None:
    """The place `name` means; what follows a comma narrows it down."""
    town, _, region = (part.strip() for part in name.partition(","))
    found: list[dict[str, Any]] = get(places, name=town, count=10).get("results") or []
    for place in found:
        if region and region.lower() in " ".join(str(place.get(key, "")) for key in ("admin1", "country")).lower():
            return place
    return found[0] if found else None


def lines(place: dict[str, Any], weather: dict[str, Any]) -> list[str]:
    where = ", ".join(str(place[key]) for key in ("name", "admin1", "country") if place.get(key))
    now, units = weather["current"], weather["current_units"]
    said = [
        where,
        f"now: {WORDS.get(now['weather_code'], 'unknown')}, {now['temperature_2m']}{units['temperature_2m']} "
        f"(feels like {now['apparent_temperature']}), wind {now['wind_speed_10m']} {units['wind_speed_10m']}, "
        f"humidity {now['relative_humidity_2m']} %",
    ]
    daily = weather["daily"]
    for number, day in enumerate(daily["time"]):
        said.append(
            f"{day}: {WORDS.get(daily['weather_code'][number], 'unknown')}, "
            f"{daily['temperature_2m_min'][number]} to {daily['temperature_2m_max'][number]}, "
            f"rain {daily['precipitation_sum'][number]} {weather['daily_units']['precipitation_sum']} "
            f"({daily['precipitation_probability_max'][number]} %)"
        )
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description="The weather at a place.")
    parser.add_argument("place")
    parser.add_argument("--days", type=int, default=3, choices=range(1, 17), metavar="1..16")
    parser.add_argument("--units", choices=("metric", "imperial"), default="metric")
    parser.add_argument("--places-url", default=PLACES, help=argparse.SUPPRESS)
    parser.add_argument("--forecast-url", default=FORECAST, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    imperial = {"temperature_unit": "fahrenheit", "wind_speed_unit": "mph", "precipitation_unit": "inch"}
    try:
        place = find(wanted.places_url, wanted.place)
        if place is None:
            sys.stderr.write(f"there is no place called {wanted.place!r}: try another spelling, or add a country\n")
            return 1
        weather = get(
            wanted.forecast_url,
            latitude=place["latitude"],
            longitude=place["longitude"],
            timezone="auto",
            forecast_days=wanted.days,
            current="temperature_2m,apparent_temperature,relative_humidity_2m,weather_code,wind_speed_10m",
            daily="weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum,precipitation_probability_max",
            **(imperial if wanted.units == "imperial" else {}),
        )
        sys.stdout.write("\n".join(lines(place, weather)) + "\n")
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        sys.stderr.write(f"the weather service cannot be reached: {error}\n")
        return 1
    except (ValueError, KeyError, IndexError, TypeError):
        sys.stderr.write("the weather service gave an answer that makes no sense; try again later\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
