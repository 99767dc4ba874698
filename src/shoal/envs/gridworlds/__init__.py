"""Small grid worlds from articles by Ryan Pegoud and Yasin Yousif: a grid with a goal, and a wall with gaps."""
