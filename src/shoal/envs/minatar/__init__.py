"""MinAtar: five Atari games on boards of ten by ten cells.

How a board becomes bits
------------------------
A step of these games costs only a few dozen integer instructions, because one instruction works on many cells or many
objects at once. There are three representations. Read this page before you change a game.

**1. One channel of the board: ten words, one for each row** (`RowBits` in `game.py`, all games). Bit x of word y is set
if something is in column x of row y. Column 0 is the lowest bit, so a word written as a number reads from right to
left:

    column   0 1 2 3 4 5 6 7 8 9        word, column 9 first
    row 0    . . . . . . . . . .        0b0000000000 =   0
    row 1    . # # . . . . . . .        0b0000000110 =   6
    row 2    # . . . . . . . . #        0b1000000001 = 513

`channel_rows(state)` of a game returns these words for each channel, `one_cell(x, y)` sets a single bit, and
`to_cells` makes from them the observation, bool [row, column, channel]. The bricks of Breakout and the aliens of
SpaceInvaders are kept in the state in a similar way: one bit for each brick or alien, row by row, in one word.

**2. At most one object in each of eight lanes: four bits for each lane** (`nibbles.py`; Asterix and Freeway). Lane i is
row i + 1 of the board. Its object is described by bits 4 i to 4 i + 3 (a nibble) of several words of 32 bits, which is
one hexadecimal digit. Here lane 0 has an object in column 2, lane 1 in column 4, lane 4 in column 9:

    lane            7 6 5 4 3 2 1 0
    columns       0x0 0 0 9 0 0 4 2
    exist         0x0 0 0 1 0 0 1 1     a flag word: the lowest bit of each nibble is the flag

`equals(columns, 4)` is 0x00000010, the flag word of the lanes that hold a 4, and `columns + (exist & go_right)` moves
all objects that go right by one cell. An empty lane holds a number too (here 0), so combine with `exist`.

**3. Any number of objects up to 32: one bit for each object in every word** (`slots.py`; the enemies of Seaquest). An
object has a slot s and owns bit s of every word. A yes-or-no property is one word (`SlotMask`). A number of k bits for
each object is k words, lowest bit first (`BitSliced`): word b holds bit b of all 32 numbers. Here slots 0, 1 and 2 hold
enemies in columns 5, 4 and 9:

    slot            3 2 1 0
    column          - 9 4 5
    x[0]  ones    0b0 1 0 1     bit 0 of 9, 4, 5
    x[1]  twos    0b0 0 0 0
    x[2]  fours   0b0 0 1 1
    x[3]  eights  0b0 1 0 0
    fish          0b0 1 0 1     slots 0 and 2 are fish
    subs          0b0 0 1 0     slot 1 is a submarine; slot 3 is free, because it is neither

`where_equal(x, 4)` is 0b0010, the objects in column 4. `increment_decrement(x, up, down)` adds 1 to the numbers of the
objects in `up` and subtracts 1 from those in `down`, with binary carries from word to word. A new object enters at slot
0 and all others move up by one slot (`push_flag`, `push_number`), so a higher slot is an older object. A free slot
holds numbers too, so combine with the word that says which objects exist.

To draw such objects, Seaquest computes for each row y the set of objects in that row and for each column x the set of
objects in that column. The cell (x, y) is occupied if the two sets have an object in common.

To give each enemy of Seaquest another property: add a `SlotMask` or `BitSliced` field to `Enemies`, set its first value
in `no_enemies` and `spawn_enemy` (all in `seaquest_enemies.py`), and change it in `_move_enemies` (`seaquest.py`).
"""
