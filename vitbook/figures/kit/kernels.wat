;; The arithmetic of tape.js: float32, four numbers at a time, the same bits on every machine (no fused multiply-add).
;; Addresses and strides count bytes, all else counts numbers. Columns come in fours; no count may be 0.
(module
 (memory (export "mem") 1)

 ;; C[m, n] = I[m, n] + the sum over k of A[m, k] B[k, n].
 ;; A has two strides, am down and ak along, so that a transposed A needs no copy. With im = 0 one row of I serves all.
 ;; A tile is 4 rows by 2 x 4 columns; over the edge it repeats its last row or column, with the same result.
 (func (export "product")
  (param $A i32) (param $am i32) (param $ak i32) (param $B i32) (param $bk i32) (param $C i32) (param $cm i32)
  (param $I i32) (param $im i32) (param $M i32) (param $N i32) (param $K i32)
  (local $m i32) (local $n i32) (local $k i32) (local $right i32) (local $more i32) (local $b i32)
  (local $a0 i32) (local $a1 i32) (local $a2 i32) (local $a3 i32)
  (local $i0 i32) (local $i1 i32) (local $i2 i32) (local $i3 i32)
  (local $c0 i32) (local $c1 i32) (local $c2 i32) (local $c3 i32)
  (local $a v128) (local $x v128) (local $y v128)
  (local $x0 v128) (local $x1 v128) (local $x2 v128) (local $x3 v128)
  (local $y0 v128) (local $y1 v128) (local $y2 v128) (local $y3 v128)
  (loop $columns
   (local.set $right (i32.shl (i32.lt_u (i32.add (local.get $n) (i32.const 4)) (local.get $N)) (i32.const 4)))
   (local.set $m (i32.const 0))
   (loop $rows
    ;; where the four rows begin
    (local.set $b (i32.add (local.get $B) (i32.shl (local.get $n) (i32.const 2))))
    (local.set $a0 (i32.add (local.get $A) (i32.mul (local.get $m) (local.get $am))))
    (local.set $i0 (i32.add (i32.add (local.get $I) (i32.shl (local.get $n) (i32.const 2))) (i32.mul (local.get $m) (local.get $im))))
    (local.set $c0 (i32.add (i32.add (local.get $C) (i32.shl (local.get $n) (i32.const 2))) (i32.mul (local.get $m) (local.get $cm))))
    (local.set $more (i32.lt_u (i32.add (local.get $m) (i32.const 1)) (local.get $M)))
    (local.set $a1 (i32.add (local.get $a0) (i32.mul (local.get $more) (local.get $am))))
    (local.set $i1 (i32.add (local.get $i0) (i32.mul (local.get $more) (local.get $im))))
    (local.set $c1 (i32.add (local.get $c0) (i32.mul (local.get $more) (local.get $cm))))
    (local.set $more (i32.lt_u (i32.add (local.get $m) (i32.const 2)) (local.get $M)))
    (local.set $a2 (i32.add (local.get $a1) (i32.mul (local.get $more) (local.get $am))))
    (local.set $i2 (i32.add (local.get $i1) (i32.mul (local.get $more) (local.get $im))))
    (local.set $c2 (i32.add (local.get $c1) (i32.mul (local.get $more) (local.get $cm))))
    (local.set $more (i32.lt_u (i32.add (local.get $m) (i32.const 3)) (local.get $M)))
    (local.set $a3 (i32.add (local.get $a2) (i32.mul (local.get $more) (local.get $am))))
    (local.set $i3 (i32.add (local.get $i2) (i32.mul (local.get $more) (local.get $im))))
    (local.set $c3 (i32.add (local.get $c2) (i32.mul (local.get $more) (local.get $cm))))

    (local.set $x0 (v128.load (local.get $i0))) (local.set $y0 (v128.load (i32.add (local.get $i0) (local.get $right))))
    (local.set $x1 (v128.load (local.get $i1))) (local.set $y1 (v128.load (i32.add (local.get $i1) (local.get $right))))
    (local.set $x2 (v128.load (local.get $i2))) (local.set $y2 (v128.load (i32.add (local.get $i2) (local.get $right))))
    (local.set $x3 (v128.load (local.get $i3))) (local.set $y3 (v128.load (i32.add (local.get $i3) (local.get $right))))
    (local.set $k (local.get $K))
    (loop $sum
     (local.set $x (v128.load (local.get $b)))
     (local.set $y (v128.load (i32.add (local.get $b) (local.get $right))))
     (local.set $a (v128.load32_splat (local.get $a0)))
     (local.set $x0 (f32x4.add (local.get $x0) (f32x4.mul (local.get $a) (local.get $x))))
     (local.set $y0 (f32x4.add (local.get $y0) (f32x4.mul (local.get $a) (local.get $y))))
     (local.set $a (v128.load32_splat (local.get $a1)))
     (local.set $x1 (f32x4.add (local.get $x1) (f32x4.mul (local.get $a) (local.get $x))))
     (local.set $y1 (f32x4.add (local.get $y1) (f32x4.mul (local.get $a) (local.get $y))))
     (local.set $a (v128.load32_splat (local.get $a2)))
     (local.set $x2 (f32x4.add (local.get $x2) (f32x4.mul (local.get $a) (local.get $x))))
     (local.set $y2 (f32x4.add (local.get $y2) (f32x4.mul (local.get $a) (local.get $y))))
     (local.set $a (v128.load32_splat (local.get $a3)))
     (local.set $x3 (f32x4.add (local.get $x3) (f32x4.mul (local.get $a) (local.get $x))))
     (local.set $y3 (f32x4.add (local.get $y3) (f32x4.mul (local.get $a) (local.get $y))))
     (local.set $a0 (i32.add (local.get $a0) (local.get $ak))) (local.set $a1 (i32.add (local.get $a1) (local.get $ak)))
     (local.set $a2 (i32.add (local.get $a2) (local.get $ak))) (local.set $a3 (i32.add (local.get $a3) (local.get $ak)))
     (local.set $b (i32.add (local.get $b) (local.get $bk)))
     (br_if $sum (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))
    (v128.store (local.get $c0) (local.get $x0)) (v128.store (i32.add (local.get $c0) (local.get $right)) (local.get $y0))
    (v128.store (local.get $c1) (local.get $x1)) (v128.store (i32.add (local.get $c1) (local.get $right)) (local.get $y1))
    (v128.store (local.get $c2) (local.get $x2)) (v128.store (i32.add (local.get $c2) (local.get $right)) (local.get $y2))
    (v128.store (local.get $c3) (local.get $x3)) (v128.store (i32.add (local.get $c3) (local.get $right)) (local.get $y3))
    (br_if $rows (i32.lt_u (local.tee $m (i32.add (local.get $m) (i32.const 4))) (local.get $M))))
   (br_if $columns (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 8))) (local.get $N)))))

 ;; y[c, r] = x[r, c]; xr and yc are the strides from row to row.
 (func (export "turn") (param $x i32) (param $xr i32) (param $y i32) (param $yc i32) (param $rows i32) (param $cols i32)
  (local $c i32) (local $from i32) (local $to i32)
  (loop $row
   (local.set $c (local.get $cols))
   (local.set $from (local.get $x))
   (local.set $to (local.get $y))
   (loop $column
    (f32.store (local.get $to) (f32.load (local.get $from)))
    (local.set $from (i32.add (local.get $from) (i32.const 4)))
    (local.set $to (i32.add (local.get $to) (local.get $yc)))
    (br_if $column (local.tee $c (i32.sub (local.get $c) (i32.const 1)))))
   (local.set $x (i32.add (local.get $x) (local.get $xr)))
   (local.set $y (i32.add (local.get $y) (i32.const 4)))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; Row i of y, w numbers, becomes those that begin at number table[i] of x.
 (func (export "take") (param $x i32) (param $table i32) (param $y i32) (param $rows i32) (param $w i32)
  (local $from i32) (local $end i32)
  (local.set $w (i32.shl (local.get $w) (i32.const 2)))
  (loop $row
   (local.set $from (i32.add (local.get $x) (i32.shl (i32.load (local.get $table)) (i32.const 2))))
   (local.set $end (i32.add (local.get $y) (local.get $w)))
   (loop $column
    (v128.store (local.get $y) (v128.load (local.get $from)))
    (local.set $from (i32.add (local.get $from) (i32.const 16)))
    (br_if $column (i32.lt_u (local.tee $y (i32.add (local.get $y) (i32.const 16))) (local.get $end))))
   (local.set $table (i32.add (local.get $table) (i32.const 4)))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; The other way: row i of x, w numbers, is added to those that begin at number table[i] of y.
 (func (export "put") (param $x i32) (param $table i32) (param $y i32) (param $rows i32) (param $w i32)
  (local $to i32) (local $end i32)
  (local.set $w (i32.shl (local.get $w) (i32.const 2)))
  (loop $row
   (local.set $to (i32.add (local.get $y) (i32.shl (i32.load (local.get $table)) (i32.const 2))))
   (local.set $end (i32.add (local.get $x) (local.get $w)))
   (loop $column
    (v128.store (local.get $to) (f32x4.add (v128.load (local.get $to)) (v128.load (local.get $x))))
    (local.set $to (i32.add (local.get $to) (i32.const 16)))
    (br_if $column (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 16))) (local.get $end))))
   (local.set $table (i32.add (local.get $table) (i32.const 4)))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; y += factor x
 (func (export "plus") (param $y i32) (param $x i32) (param $n i32) (param $factor f32)
  (local $end i32)
  (local.set $end (i32.add (local.get $y) (i32.shl (local.get $n) (i32.const 2))))
  (loop $next
   (v128.store (local.get $y)
    (f32x4.add (v128.load (local.get $y)) (f32x4.mul (f32x4.splat (local.get $factor)) (v128.load (local.get $x)))))
   (local.set $x (i32.add (local.get $x) (i32.const 16)))
   (br_if $next (i32.lt_u (local.tee $y (i32.add (local.get $y) (i32.const 16))) (local.get $end)))))

 ;; z += x y, number by number
 (func (export "plusProduct") (param $z i32) (param $x i32) (param $y i32) (param $n i32)
  (local $end i32)
  (local.set $end (i32.add (local.get $z) (i32.shl (local.get $n) (i32.const 2))))
  (loop $next
   (v128.store (local.get $z)
    (f32x4.add (v128.load (local.get $z)) (f32x4.mul (v128.load (local.get $x)) (v128.load (local.get $y)))))
   (local.set $x (i32.add (local.get $x) (i32.const 16)))
   (local.set $y (i32.add (local.get $y) (i32.const 16)))
   (br_if $next (i32.lt_u (local.tee $z (i32.add (local.get $z) (i32.const 16))) (local.get $end)))))

 ;; y += the sum of the rows of x
 (func (export "plusRows") (param $y i32) (param $x i32) (param $rows i32) (param $w i32)
  (local $to i32) (local $end i32)
  (local.set $end (i32.add (local.get $y) (i32.shl (local.get $w) (i32.const 2))))
  (loop $row
   (local.set $to (local.get $y))
   (loop $column
    (v128.store (local.get $to) (f32x4.add (v128.load (local.get $to)) (v128.load (local.get $x))))
    (local.set $x (i32.add (local.get $x) (i32.const 16)))
    (br_if $column (i32.lt_u (local.tee $to (i32.add (local.get $to) (i32.const 16))) (local.get $end))))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; The sum of four numbers.
 (func $sum (param $x v128) (result f32)
  (f32.add
   (f32.add (f32x4.extract_lane 0 (local.get $x)) (f32x4.extract_lane 1 (local.get $x)))
   (f32.add (f32x4.extract_lane 2 (local.get $x)) (f32x4.extract_lane 3 (local.get $x)))))

 ;; The sum of the squares of n numbers.
 (func (export "squares") (param $x i32) (param $n i32) (result f32)
  (local $end i32) (local $v v128) (local $s v128)
  (local.set $end (i32.add (local.get $x) (i32.shl (local.get $n) (i32.const 2))))
  (loop $next
   (local.set $v (v128.load (local.get $x)))
   (local.set $s (f32x4.add (local.get $s) (f32x4.mul (local.get $v) (local.get $v))))
   (br_if $next (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 16))) (local.get $end))))
  (call $sum (local.get $s)))

 ;; e to the x, for x up to 88 (Cephes, expf): x = n ln 2 + r, a polynomial in r, times 2 to the n.
 ;; Below -60 it is exactly 0: numbers near the smallest that float32 can hold would be slow.
 (func $exp (param $x v128) (result v128)
  (local $n v128) (local $r v128) (local $not0 v128)
  (local.set $not0 (f32x4.gt (local.get $x) (v128.const f32x4 -60 -60 -60 -60)))
  (local.set $x (f32x4.max (local.get $x) (v128.const f32x4 -60 -60 -60 -60)))
  (local.set $n (f32x4.nearest (f32x4.mul (local.get $x) (v128.const f32x4 1.44269504 1.44269504 1.44269504 1.44269504))))
  (local.set $r (f32x4.sub
   (f32x4.sub (local.get $x) (f32x4.mul (local.get $n) (v128.const f32x4 0.693359375 0.693359375 0.693359375 0.693359375)))
   (f32x4.mul (local.get $n) (v128.const f32x4 -2.12194440e-4 -2.12194440e-4 -2.12194440e-4 -2.12194440e-4))))
  (local.set $x (v128.const f32x4 1.9875691500e-4 1.9875691500e-4 1.9875691500e-4 1.9875691500e-4))
  (local.set $x (f32x4.add (v128.const f32x4 1.3981999507e-3 1.3981999507e-3 1.3981999507e-3 1.3981999507e-3) (f32x4.mul (local.get $x) (local.get $r))))
  (local.set $x (f32x4.add (v128.const f32x4 8.3334519073e-3 8.3334519073e-3 8.3334519073e-3 8.3334519073e-3) (f32x4.mul (local.get $x) (local.get $r))))
  (local.set $x (f32x4.add (v128.const f32x4 4.1665795894e-2 4.1665795894e-2 4.1665795894e-2 4.1665795894e-2) (f32x4.mul (local.get $x) (local.get $r))))
  (local.set $x (f32x4.add (v128.const f32x4 1.6666665459e-1 1.6666665459e-1 1.6666665459e-1 1.6666665459e-1) (f32x4.mul (local.get $x) (local.get $r))))
  (local.set $x (f32x4.add (v128.const f32x4 5.0000001201e-1 5.0000001201e-1 5.0000001201e-1 5.0000001201e-1) (f32x4.mul (local.get $x) (local.get $r))))
  (local.set $x (f32x4.add (f32x4.mul (local.get $x) (f32x4.mul (local.get $r) (local.get $r))) (local.get $r)))
  (local.set $x (f32x4.add (local.get $x) (v128.const f32x4 1 1 1 1)))
  (local.set $n (i32x4.add (i32x4.trunc_sat_f32x4_s (local.get $n)) (v128.const i32x4 127 127 127 127)))
  (v128.and (local.get $not0) (f32x4.mul (local.get $x) (i32x4.shl (local.get $n) (i32.const 23)))))

 ;; Each row of y is the softmax of that row of x: w numbers, xr bytes from row to row; y is 0 from column w on.
 (func (export "softmax") (param $x i32) (param $y i32) (param $rows i32) (param $w i32) (param $xr i32)
  (local $c i32) (local $top v128) (local $s v128) (local $e v128)
  (loop $row
   (local.set $c (i32.const 0))
   (loop $column
    (v128.store (i32.add (local.get $y) (local.get $c)) (v128.load (i32.add (local.get $x) (local.get $c))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $xr))))
   (local.set $c (i32.shl (local.get $w) (i32.const 2)))
   (block $full
    (loop $padding
     (br_if $full (i32.ge_u (local.get $c) (local.get $xr)))
     (f32.store (i32.add (local.get $y) (local.get $c)) (f32.const -1e30)) ;; e to this is 0
     (local.set $c (i32.add (local.get $c) (i32.const 4)))
     (br $padding)))

   (local.set $top (v128.const f32x4 -1e30 -1e30 -1e30 -1e30))
   (local.set $c (i32.const 0))
   (loop $column
    (local.set $top (f32x4.max (local.get $top) (v128.load (i32.add (local.get $y) (local.get $c)))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $xr))))
   (local.set $top (f32x4.splat (f32.max
    (f32.max (f32x4.extract_lane 0 (local.get $top)) (f32x4.extract_lane 1 (local.get $top)))
    (f32.max (f32x4.extract_lane 2 (local.get $top)) (f32x4.extract_lane 3 (local.get $top))))))

   (local.set $s (v128.const f32x4 0 0 0 0))
   (local.set $c (i32.const 0))
   (loop $column
    (local.set $e (call $exp (f32x4.sub (v128.load (i32.add (local.get $y) (local.get $c))) (local.get $top))))
    (v128.store (i32.add (local.get $y) (local.get $c)) (local.get $e))
    (local.set $s (f32x4.add (local.get $s) (local.get $e)))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $xr))))

   (local.set $s (f32x4.splat (f32.div (f32.const 1) (call $sum (local.get $s)))))
   (local.set $c (i32.const 0))
   (loop $column
    (v128.store (i32.add (local.get $y) (local.get $c)) (f32x4.mul (local.get $s) (v128.load (i32.add (local.get $y) (local.get $c)))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $xr))))
   (local.set $x (i32.add (local.get $x) (local.get $xr)))
   (local.set $y (i32.add (local.get $y) (local.get $xr)))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; Its way back, row by row: dx += y (dy - the sum of y dy).
 (func (export "softmaxBack") (param $y i32) (param $dy i32) (param $dx i32) (param $rows i32) (param $xr i32)
  (local $c i32) (local $s v128)
  (loop $row
   (local.set $s (v128.const f32x4 0 0 0 0))
   (local.set $c (i32.const 0))
   (loop $column
    (local.set $s (f32x4.add (local.get $s)
     (f32x4.mul (v128.load (i32.add (local.get $y) (local.get $c))) (v128.load (i32.add (local.get $dy) (local.get $c))))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $xr))))
   (local.set $s (f32x4.splat (call $sum (local.get $s))))
   (local.set $c (i32.const 0))
   (loop $column
    (v128.store (i32.add (local.get $dx) (local.get $c)) (f32x4.add (v128.load (i32.add (local.get $dx) (local.get $c)))
     (f32x4.mul (v128.load (i32.add (local.get $y) (local.get $c)))
      (f32x4.sub (v128.load (i32.add (local.get $dy) (local.get $c))) (local.get $s)))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $xr))))
   (local.set $y (i32.add (local.get $y) (local.get $xr)))
   (local.set $dy (i32.add (local.get $dy) (local.get $xr)))
   (local.set $dx (i32.add (local.get $dx) (local.get $xr)))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; GELU: x times P(x), P the normal distribution; its slope, P(x) + x P'(x), is kept for the way back.
 ;; The error function is that of vit.js: Abramowitz and Stegun 1964, 7.1.26.
 (func (export "gelu") (param $x i32) (param $y i32) (param $slope i32) (param $n i32)
  (local $end i32) (local $v v128) (local $z v128) (local $t v128) (local $e v128) (local $p v128)
  (local.set $end (i32.add (local.get $x) (i32.shl (local.get $n) (i32.const 2))))
  (loop $next
   (local.set $v (v128.load (local.get $x)))
   (local.set $z (f32x4.mul (f32x4.abs (local.get $v)) (v128.const f32x4 0.70710678 0.70710678 0.70710678 0.70710678)))
   (local.set $e (call $exp (f32x4.neg (f32x4.mul (local.get $z) (local.get $z)))))
   (local.set $t (f32x4.div (v128.const f32x4 1 1 1 1)
    (f32x4.add (v128.const f32x4 1 1 1 1) (f32x4.mul (v128.const f32x4 0.3275911 0.3275911 0.3275911 0.3275911) (local.get $z)))))
   (local.set $p (v128.const f32x4 1.061405429 1.061405429 1.061405429 1.061405429))
   (local.set $p (f32x4.add (v128.const f32x4 -1.453152027 -1.453152027 -1.453152027 -1.453152027) (f32x4.mul (local.get $p) (local.get $t))))
   (local.set $p (f32x4.add (v128.const f32x4 1.421413741 1.421413741 1.421413741 1.421413741) (f32x4.mul (local.get $p) (local.get $t))))
   (local.set $p (f32x4.add (v128.const f32x4 -0.284496736 -0.284496736 -0.284496736 -0.284496736) (f32x4.mul (local.get $p) (local.get $t))))
   (local.set $p (f32x4.add (v128.const f32x4 0.254829592 0.254829592 0.254829592 0.254829592) (f32x4.mul (local.get $p) (local.get $t))))
   (local.set $p (f32x4.sub (v128.const f32x4 1 1 1 1) (f32x4.mul (f32x4.mul (local.get $p) (local.get $t)) (local.get $e))))
   (local.set $p (v128.or (local.get $p) (v128.and (local.get $v) (v128.const i32x4 0x80000000 0x80000000 0x80000000 0x80000000)))) ;; erf is odd
   (local.set $p (f32x4.mul (v128.const f32x4 0.5 0.5 0.5 0.5) (f32x4.add (v128.const f32x4 1 1 1 1) (local.get $p))))
   (v128.store (local.get $y) (f32x4.mul (local.get $v) (local.get $p)))
   (v128.store (local.get $slope) (f32x4.add (local.get $p)
    (f32x4.mul (f32x4.mul (local.get $v) (local.get $e)) (v128.const f32x4 0.39894228 0.39894228 0.39894228 0.39894228))))
   (local.set $y (i32.add (local.get $y) (i32.const 16)))
   (local.set $slope (i32.add (local.get $slope) (i32.const 16)))
   (br_if $next (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 16))) (local.get $end)))))

 ;; Layer norm of rows of w numbers: hat = (x - mean) / deviation, y = gain hat + shift; `by` keeps 1 / deviation.
 (func (export "norm") (param $x i32) (param $gain i32) (param $shift i32) (param $y i32) (param $hat i32) (param $by i32)
  (param $rows i32) (param $w i32) (param $eps f32)
  (local $c i32) (local $one f32) (local $s v128) (local $v v128) (local $mean v128)
  (local.set $one (f32.div (f32.const 1) (f32.convert_i32_u (local.get $w))))
  (local.set $w (i32.shl (local.get $w) (i32.const 2)))
  (loop $row
   (local.set $s (v128.const f32x4 0 0 0 0))
   (local.set $c (i32.const 0))
   (loop $column
    (local.set $s (f32x4.add (local.get $s) (v128.load (i32.add (local.get $x) (local.get $c)))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $w))))
   (local.set $mean (f32x4.splat (f32.mul (call $sum (local.get $s)) (local.get $one))))

   (local.set $s (v128.const f32x4 0 0 0 0))
   (local.set $c (i32.const 0))
   (loop $column
    (local.set $v (f32x4.sub (v128.load (i32.add (local.get $x) (local.get $c))) (local.get $mean)))
    (local.set $s (f32x4.add (local.get $s) (f32x4.mul (local.get $v) (local.get $v))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $w))))
   (f32.store (local.get $by)
    (f32.div (f32.const 1) (f32.sqrt (f32.add (f32.mul (call $sum (local.get $s)) (local.get $one)) (local.get $eps)))))
   (local.set $s (v128.load32_splat (local.get $by)))

   (local.set $c (i32.const 0))
   (loop $column
    (local.set $v (f32x4.mul (local.get $s) (f32x4.sub (v128.load (i32.add (local.get $x) (local.get $c))) (local.get $mean))))
    (v128.store (i32.add (local.get $hat) (local.get $c)) (local.get $v))
    (v128.store (i32.add (local.get $y) (local.get $c)) (f32x4.add (v128.load (i32.add (local.get $shift) (local.get $c)))
     (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $gain) (local.get $c))))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $w))))
   (local.set $x (i32.add (local.get $x) (local.get $w)))
   (local.set $y (i32.add (local.get $y) (local.get $w)))
   (local.set $hat (i32.add (local.get $hat) (local.get $w)))
   (local.set $by (i32.add (local.get $by) (i32.const 4)))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; Its way back, with g = dy gain: dx += by (g - mean of g - hat mean of g hat), dgain += dy hat, dshift += dy.
 (func (export "normBack") (param $dy i32) (param $gain i32) (param $hat i32) (param $by i32)
  (param $dx i32) (param $dgain i32) (param $dshift i32) (param $rows i32) (param $w i32)
  (local $c i32) (local $one f32) (local $d v128) (local $h v128) (local $g v128) (local $gs v128) (local $ghs v128)
  (local.set $one (f32.div (f32.const 1) (f32.convert_i32_u (local.get $w))))
  (local.set $w (i32.shl (local.get $w) (i32.const 2)))
  (loop $row
   (local.set $gs (v128.const f32x4 0 0 0 0))
   (local.set $ghs (v128.const f32x4 0 0 0 0))
   (local.set $c (i32.const 0))
   (loop $column
    (local.set $d (v128.load (i32.add (local.get $dy) (local.get $c))))
    (local.set $h (v128.load (i32.add (local.get $hat) (local.get $c))))
    (local.set $g (f32x4.mul (local.get $d) (v128.load (i32.add (local.get $gain) (local.get $c)))))
    (local.set $gs (f32x4.add (local.get $gs) (local.get $g)))
    (local.set $ghs (f32x4.add (local.get $ghs) (f32x4.mul (local.get $g) (local.get $h))))
    (v128.store (i32.add (local.get $dgain) (local.get $c))
     (f32x4.add (v128.load (i32.add (local.get $dgain) (local.get $c))) (f32x4.mul (local.get $d) (local.get $h))))
    (v128.store (i32.add (local.get $dshift) (local.get $c))
     (f32x4.add (v128.load (i32.add (local.get $dshift) (local.get $c))) (local.get $d)))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $w))))
   (local.set $gs (f32x4.splat (f32.mul (call $sum (local.get $gs)) (local.get $one))))
   (local.set $ghs (f32x4.splat (f32.mul (call $sum (local.get $ghs)) (local.get $one))))

   (local.set $c (i32.const 0))
   (loop $column
    (local.set $g (f32x4.mul (v128.load (i32.add (local.get $dy) (local.get $c))) (v128.load (i32.add (local.get $gain) (local.get $c)))))
    (local.set $g (f32x4.sub (f32x4.sub (local.get $g) (local.get $gs))
     (f32x4.mul (v128.load (i32.add (local.get $hat) (local.get $c))) (local.get $ghs))))
    (v128.store (i32.add (local.get $dx) (local.get $c)) (f32x4.add (v128.load (i32.add (local.get $dx) (local.get $c)))
     (f32x4.mul (v128.load32_splat (local.get $by)) (local.get $g))))
    (br_if $column (i32.lt_u (local.tee $c (i32.add (local.get $c) (i32.const 16))) (local.get $w))))
   (local.set $dy (i32.add (local.get $dy) (local.get $w)))
   (local.set $hat (i32.add (local.get $hat) (local.get $w)))
   (local.set $dx (i32.add (local.get $dx) (local.get $w)))
   (local.set $by (i32.add (local.get $by) (i32.const 4)))
   (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1))))))

 ;; Numbers too small to matter become 0: those below 1e-30 would soon be slow.
 (func $flush (param $x v128) (result v128)
  (v128.and (local.get $x) (f32x4.gt (f32x4.abs (local.get $x)) (v128.const f32x4 1e-30 1e-30 1e-30 1e-30))))

 ;; AdamW (Loshchilov and Hutter 2019, algorithm 2) for n weights p with gradients g, whose running means are m and v:
 ;; p -= decay p + step m / (root of v + eps). What corrects the means' start at 0 is in step and eps already.
 (func (export "adamw") (param $p i32) (param $g i32) (param $m i32) (param $v i32) (param $n i32)
  (param $beta1 f32) (param $beta2 f32) (param $step f32) (param $eps f32) (param $decay f32)
  (local $end i32) (local $a v128) (local $x v128) (local $y v128)
  (local.set $end (i32.add (local.get $p) (i32.shl (local.get $n) (i32.const 2))))
  (loop $next
   (local.set $a (v128.load (local.get $g)))
   (local.set $x (v128.load (local.get $m)))
   (local.set $x (call $flush (f32x4.add (local.get $x)
    (f32x4.mul (f32x4.splat (f32.sub (f32.const 1) (local.get $beta1))) (f32x4.sub (local.get $a) (local.get $x))))))
   (v128.store (local.get $m) (local.get $x))
   (local.set $y (v128.load (local.get $v)))
   (local.set $y (call $flush (f32x4.add (local.get $y)
    (f32x4.mul (f32x4.splat (f32.sub (f32.const 1) (local.get $beta2))) (f32x4.sub (f32x4.mul (local.get $a) (local.get $a)) (local.get $y))))))
   (v128.store (local.get $v) (local.get $y))
   (local.set $a (v128.load (local.get $p)))
   (local.set $a (f32x4.sub (local.get $a) (f32x4.mul (f32x4.splat (local.get $decay)) (local.get $a))))
   (v128.store (local.get $p) (f32x4.sub (local.get $a) (f32x4.div
    (f32x4.mul (f32x4.splat (local.get $step)) (local.get $x))
    (f32x4.add (f32x4.sqrt (local.get $y)) (f32x4.splat (local.get $eps))))))
   (local.set $g (i32.add (local.get $g) (i32.const 16)))
   (local.set $m (i32.add (local.get $m) (i32.const 16)))
   (local.set $v (i32.add (local.get $v) (i32.const 16)))
   (br_if $next (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 16))) (local.get $end))))))
