"""Kinds of objects that a level declares: what agents may do with them, what happens, what observations show."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from maps import drawn, play
from shoal.core.keys import make_key
from shoal.core.struct import struct
from shoal.grid.actions import cell_at, cell_mask, with_cell
from shoal.grid.cells import EMPTY, FIRST_NEW_CODE, LAST_CODE, OBJECTS, WALL, cell, is_a, with_content
from shoal.grid.checks import check_level
from shoal.grid.layout import choose, empty_room, place_each
from shoal.grid.level import GridState, SquareLevel, begin
from shoal.grid.new_kinds import NewKind
from shoal.grid.shapes import ARROWS
from shoal.grid.tiles import atlas
from shoal.grid.words import VOCABULARY, decode, encode, fill, look_words
from shoal.grid.wrappers import DictObservationSpace, FlatObs, FullyObs, NoDeath, OneHotPartialObs, SymbolicObs
from shoal.grid.wrappers.flat_obs import CHARACTERS
from shoal.nn.tiles import is_tiles, sizes_of


def to_the_other(state, x, y):
    """Move the agent to the other portal."""
    others = is_a(state.grid, PORTAL) & ~cell_mask(state.grid.shape, x, y)
    index = jnp.argmax(others.reshape(-1)).astype(jnp.int32)
    return state.replace(x=index // state.grid.shape[1], y=index % state.grid.shape[1])


def press(state, x, y):
    """The button gets the state 1, and every door opens."""
    door = is_a(state.grid, "door")
    grid = jnp.where(door, cell("door", "red", "open"), state.grid)
    return state.replace(grid=with_cell(grid, x, y, cell(BUTTON, "red", 1)))


def turn_left(state, x, y):
    return state.replace(direction=jnp.int32(2))


PORTAL = NewKind("portal", 11, walkable=True, picture="ring", on_step=to_the_other)
BUTTON = NewKind("button", 13, states=2, picture=("square", "frame"), on_toggle=press, on_pickup=turn_left)
COIN = NewKind("coin", 12, portable=True, picture="disk", on_pickup=turn_left)
CURTAIN = NewKind("curtain", 15, walkable=True, transparent=False, states=4)


@struct
class Things(SquareLevel):
    """A room with one object of each new kind."""

    kinds = (PORTAL, BUTTON, COIN, CURTAIN)
    task = "use the portal"
    time_limit = property(lambda self: 4 * self.size**2)

    def init(self, key):
        k_things, k_agent = jax.random.split(key)
        things = jnp.stack([jnp.asarray(cell(kind, "blue")) for kind in (PORTAL, PORTAL, BUTTON, COIN, CURTAIN)])
        grid, _, _ = place_each(k_things, jnp.asarray(empty_room(*self.shape)), things)
        return GridState(**begin(grid, *choose(k_agent, grid == EMPTY), 0))


@struct
class Strip(Things):
    """The same things, for grids that a test draws."""

    shape = property(lambda self: (7, 3))


LETTERS = {
    "P": cell(PORTAL, "blue"),
    "B": cell(BUTTON, "red"),
    "C": cell(COIN, "yellow"),
    "D": cell("door", "red", "locked"),
}
LETTERS |= {"X": cell(CURTAIN, "green")}


def strip(row, **more):
    return drawn(GridState, f"####### {row} #######", LETTERS, **more)


def test_stepping_on_a_portal_moves_the_agent_to_the_other_one():
    state, reward, terminated, _ = play(Strip(), strip("#>P..P#"), "forward")
    assert (int(state.x), int(state.y), reward, terminated) == (5, 1, 0, False)
    # It stands on the second portal now, and nothing happens before it steps on one again.
    assert int(play(Strip(), state, "left")[0].x) == 5
    back, *_ = play(Strip(), state, "left left forward forward forward")
    assert int(back.x) == 5  # it walked to the first portal, which sends it to the second
    np.testing.assert_array_equal(back.grid, state.grid)


def test_only_stepping_on_it_calls_on_step():
    for action in ("pickup", "drop", "toggle", "done", "left", "right"):
        assert int(play(Strip(), strip("#>P..P#"), action)[0].x) == 1


def test_toggling_a_button_opens_the_door():
    state, *_ = play(Strip(), strip("#>B.D.#"), "toggle")
    assert state.grid[2, 1] == cell(BUTTON, "red", 1) and state.grid[4, 1] == cell("door", "red", "open")
    for action in ("forward", "drop", "done"):
        state, *_ = play(Strip(), strip("#>B.D.#"), action)
        assert (int(state.x), state.grid[2, 1], state.grid[4, 1]) == (1, LETTERS["B"], LETTERS["D"])


def test_a_hook_waits_for_an_object_of_its_own_kind_in_front():
    state, *_ = play(Strip(), strip("#>.BD.#"), "toggle")
    np.testing.assert_array_equal(state.grid, strip("#>.BD.#").grid)
    state, *_ = play(Strip(), strip("#>C.DB#"), "toggle")
    np.testing.assert_array_equal(state.grid, strip("#>C.DB#").grid)


def test_a_portable_kind_is_carried_and_dropped():
    state, *_ = play(Strip(), strip("#>C...#"), "pickup")
    assert state.carrying == LETTERS["C"] and state.grid[2, 1] == EMPTY and int(state.direction) == 2
    state, *_ = play(Strip(), state, "right right drop")
    assert state.carrying == EMPTY and state.grid[2, 1] == LETTERS["C"]


def test_a_hook_for_taking_is_called_when_hands_are_free_and_always_for_what_cannot_be_taken():
    key = cell("key", "red")
    full, *_ = play(Strip(), strip("#>C...#", carrying=key), "pickup")
    assert full.carrying == key and full.grid[2, 1] == LETTERS["C"] and int(full.direction) == 0
    button, *_ = play(Strip(), strip("#>B...#", carrying=key), "pickup")
    assert button.grid[2, 1] == LETTERS["B"] and int(button.direction) == 2


def test_what_is_not_walkable_is_in_the_way_and_a_state_does_not_shut_a_kind():
    assert int(play(Strip(), strip("#>B...#"), "forward")[0].x) == 1
    for state in range(4):
        drawn_strip = strip("#>X...#").replace(grid=strip("#>X...#").grid.at[2, 1].set(cell(CURTAIN, "green", state)))
        assert int(play(Strip(), drawn_strip, "forward")[0].x) == 2


def test_a_kind_that_is_not_transparent_hides_what_a_wall_hides():
    level, state = Strip(view_size=5), strip("#>.X..#")
    walled = state.replace(grid=state.grid.at[3, 1].set(WALL))
    shown, hidden = np.array(level.agent_view(state)), np.array(level.agent_view(walled))
    assert (shown[2, 2] == [15, 1, 0]).all()  # two cells ahead; the agent looks up from [2, 4]
    shown[2, 2] = hidden[2, 2]
    np.testing.assert_array_equal(shown, hidden)
    seen = np.array(level.agent_view(state.replace(grid=state.grid.at[3, 1].set(cell(BUTTON, "red", 1)))))
    assert seen[2, 1, 0] == OBJECTS.index("empty") and shown[2, 1, 0] == 0  # a button hides nothing, in either state


def test_observations_have_the_codes_and_their_spaces_contain_them():
    level = Things()
    assert level.highest == (15, 5, 3)
    np.testing.assert_array_equal(level.observation_space["image"].bounds()[1][0, 0], level.highest)
    view = np.asarray(Strip().agent_view(strip("#>P.BC#")))
    assert [tuple(c) for c in view[3, ::-1].tolist()][1:5] == [(11, 2, 0), (1, 0, 0), (13, 0, 0), (12, 4, 0)]
    shoal.check_env(level)
    check_level(Things(size=5))


def test_wrappers_show_the_new_kinds():
    level, state = Strip(), strip("#>P..B#")
    assert np.asarray(FullyObs(level).observe(state)["image"])[2, 1].tolist() == [11, 2, 0]
    assert np.asarray(SymbolicObs(level).observe(state)["image"])[5, 1].tolist() == [5, 1, 13]
    one_hot = OneHotPartialObs(level)
    assert one_hot.observation_space["image"].shape == (7, 7, 16 + 6 + 4)
    ones = np.asarray(one_hot.observe(state)["image"])[3, 5]
    assert np.flatnonzero(ones).tolist() == [11, 16 + 2, 16 + 6 + 0]
    for wrapped in (FullyObs(level), SymbolicObs(level), one_hot):
        assert wrapped.observation_space.contains(wrapped.observe(state))
    NoDeath(level, objects=("portal",))
    with pytest.raises(ValueError, match="portal, button, coin, curtain"):
        NoDeath(level, objects=("dragon",))


def test_a_network_for_categories_has_room_for_the_new_codes():
    image = Things().observation_space["image"]
    assert is_tiles(image) and sizes_of(image) == (16, 6, 4)


def test_missions_may_name_a_new_kind():
    level = Things()
    state = level.init(make_key(0))
    assert level.mission_text(state) == "use the portal"
    number = len(VOCABULARY)
    assert np.asarray(level.mission(state)).tolist() == [*encode("use the"), number]
    assert level.observation_space["mission"].nvec == (number + 4,) * 3
    assert DictObservationSpace(level).observation_space["mission"].nvec == (number + 4,) * 50
    named = fill("get the {} {}", *look_words(jnp.asarray(LETTERS["C"]), level.kinds))
    assert decode(named, level.kinds) == "get the yellow coin"
    letters = np.asarray(FlatObs(level).observe(state))[147:].reshape(96, len(CHARACTERS))
    assert "".join(CHARACTERS[row.argmax()] for row in letters if row.any()) == "use the portal"
    with pytest.raises(ValueError, match="'coins' is unknown.*the level has portal, button, coin, curtain"):
        encode("get the coins", kinds=level.kinds)


def test_a_tile_is_the_picture_in_the_color_of_the_cell():
    tiles = atlas(8, Things.kinds)

    def tile(code):
        return tiles.tiles[tiles.number[int(code)]]

    portal = tile(cell(PORTAL, "blue"))
    assert portal[4, 4].tolist() == [0, 0, 0] and portal[4, 1].tolist() == [0, 0, 255]  # a ring around nothing
    assert tile(cell(BUTTON, "red"))[4, 4].tolist() == [255, 0, 0]  # a square
    assert tile(cell(BUTTON, "red", 1))[4, 4].tolist() == [0, 0, 0]  # a frame
    plain = atlas(8)
    same = [code for code in range(1 << 13) if code & 15 < FIRST_NEW_CODE]
    np.testing.assert_array_equal(tiles.tiles[tiles.number[same]], plain.tiles[plain.number[same]])


def test_a_picture_of_the_level_is_made_of_these_tiles():
    level, state = Strip(tile_size=8, highlight=False), strip("#>P..B#")
    picture, tiles = np.asarray(level.render(state)), atlas(8, Things.kinds)
    np.testing.assert_array_equal(picture[8:16, 16:24], tiles.tiles[tiles.number[int(cell(PORTAL, "blue"))]])
    view = np.asarray(level.replace(agent_pov=True, highlight=True).render(state))
    assert (view == [76, 76, 255]).all(-1).any()  # the blue of the portal, lighter


def test_a_box_holds_a_new_kind():
    box = with_content(cell("box", "grey"), cell(COIN, "yellow"))
    state = strip("#>....#")
    state, *_ = play(Strip(), state.replace(grid=state.grid.at[2, 1].set(box)), "toggle")
    assert cell_at(state.grid, jnp.int32(2), jnp.int32(1), WALL) == LETTERS["C"]


def test_an_arrow_points_in_the_direction_that_is_the_state():
    guard = NewKind("guard", 14, states=4, picture=ARROWS)
    tiles = atlas(9, (guard,))
    right, down, left, up = (tiles.tiles[tiles.number[int(cell(guard, "blue", way))]][..., 2] > 127 for way in range(4))
    assert right.sum() == down.sum() == left.sum() == up.sum() > 10
    assert right[:, :4].sum() > right[:, 5:].sum() and left[:, 5:].sum() > left[:, :4].sum()
    assert down[:4].sum() > down[5:].sum() and up[5:].sum() > up[:4].sum()


@pytest.mark.parametrize(
    ("declaration", "error", "words"),
    [
        ({"code": 5}, ValueError, "code=5 must be from 11 to 15, and 5 is that of key"),
        ({"code": 16}, ValueError, "code=16 must be from 11 to 15"),
        ({"name": "key"}, ValueError, "'key': the name is taken, by an object of MiniGrid"),
        ({"name": "pressure plate"}, ValueError, "one word of small letters"),
        ({"states": 5}, ValueError, "states=5 must be from 1 to 4"),
        ({"states": 2, "picture": ("disk",)}, ValueError, "1 pictures for states=2"),
        ({"picture": "dissk"}, ValueError, "picture='dissk' is unknown. Did you mean disk?"),
        ({"picture": lambda x, y: x}, ValueError, "must return a mask"),
        ({"on_step": lambda state: state}, TypeError, r"write on_step\(state, x, y\). It has the arguments \(state\)"),
        ({"every_step": lambda state: state}, TypeError, r"write every_step\(state, kind\)"),
        ({"on_toggle": 3}, TypeError, "on_toggle=3 is no function"),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_message(declaration, error, words):
    with pytest.raises(error, match=words):
        NewKind(**{"name": "thing", "code": 11, **declaration})


@pytest.mark.parametrize(
    ("kinds", "error", "words"),
    [
        ((PORTAL, NewKind("gate", 11)), ValueError, "code 11 of kind 'gate' is taken by kind 'portal'"),
        ((PORTAL, NewKind("portal", 12)), ValueError, "name 'portal' of kind 'portal' is taken"),
        (
            tuple(NewKind("abcdef"[i], min(11 + i, LAST_CODE)) for i in range(6)),
            ValueError,
            "declares 6 kinds, and 5 fit: a cell has 16 codes",
        ),
        ([PORTAL], TypeError, "must be a tuple of NewKind"),
        ((cell("key"),), TypeError, "must be a tuple of NewKind"),
    ],
)
def test_kinds_that_do_not_fit_together_are_refused(kinds, error, words):
    @struct
    class Wrong(Strip):
        pass

    Wrong.kinds = kinds
    with pytest.raises(error, match=words):
        Wrong()


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (lambda state, x, y: state.x, r"returns a number of int32: on_step\(state, x, y\) returns the new state"),
        (lambda state, x, y: state.replace(x=jnp.int16(1)), r"a state with x of int16\[\] instead of int32\[\]"),
        (lambda state, x, y: state.replace(grid=state.grid[:2]), r"grid of uint16\[2, 8\] instead of uint16\[8, 8\]"),
        (lambda state, x, y: state if state.x > 1 else state, "use jnp.where"),
        (lambda state, x, y: state.replace(x=state.nowhere), "nowhere"),
    ],
)
def test_a_hook_that_returns_no_state_is_refused_when_the_level_is_made(hook, words):
    @struct
    class Wrong(Things):
        kinds = (NewKind("trap", 14, on_step=hook),)
        task = ""

        def init(self, key):
            return GridState(**begin(jnp.asarray(empty_room(*self.shape)), 1, 1, 0))

    with pytest.raises((TypeError, ValueError), match=words):
        Wrong()


def test_a_portable_kind_needs_a_level_whose_grid_changes():
    @struct
    class Fixed(Strip):
        grid_changes = False

    with pytest.raises(ValueError, match="portable kind 'coin' could not be taken"):
        Fixed()


def test_a_cell_of_a_new_kind_has_a_state_that_the_kind_has():
    with pytest.raises(ValueError, match="state=2 of button is not in 0 to 1"):
        cell(BUTTON, "red", 2)
