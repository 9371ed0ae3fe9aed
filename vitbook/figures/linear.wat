(module (memory (export "mem") 1)
 ;; y[n,dout] = x[n,di] @ W[dout,di]^T + b   (di % 4 == 0, dout % 4 == 0), all f32
 (func (export "linear") (param $x i32) (param $n i32) (param $W i32) (param $b i32) (param $di i32) (param $dout i32) (param $y i32)
  (local $i i32) (local $j i32) (local $k i32) (local $p i32) (local $r i32) (local $w0 i32) (local $w1 i32) (local $w2 i32) (local $w3 i32)
  (local $a v128) (local $c v128) (local $d v128) (local $e v128) (local $v v128)
  (local.set $r (i32.shl (local.get $di) (i32.const 2)))
  (loop $I
   (local.set $j (i32.const 0))
   (loop $J
    (local.set $w0 (i32.add (local.get $W) (i32.mul (local.get $j) (local.get $r))))
    (local.set $w1 (i32.add (local.get $w0) (local.get $r))) (local.set $w2 (i32.add (local.get $w1) (local.get $r))) (local.set $w3 (i32.add (local.get $w2) (local.get $r)))
    (local.set $a (v128.const f32x4 0 0 0 0)) (local.set $c (v128.const f32x4 0 0 0 0)) (local.set $d (v128.const f32x4 0 0 0 0)) (local.set $e (v128.const f32x4 0 0 0 0))
    (local.set $k (i32.const 0)) (local.set $p (i32.add (local.get $x) (i32.mul (local.get $i) (local.get $r))))
    (loop $K
     (local.set $v (v128.load (i32.add (local.get $p) (local.get $k))))
     (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w0) (local.get $k))))))
     (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w1) (local.get $k))))))
     (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w2) (local.get $k))))))
     (local.set $e (f32x4.add (local.get $e) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $w3) (local.get $k))))))
     (br_if $K (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 16))) (local.get $r))))
    ;; transpose-add the four accumulators into one vector of four sums, add the bias
    (local.set $v (f32x4.add (i8x16.shuffle 0 1 2 3 16 17 18 19 8 9 10 11 24 25 26 27 (local.get $a) (local.get $c)) (i8x16.shuffle 4 5 6 7 20 21 22 23 12 13 14 15 28 29 30 31 (local.get $a) (local.get $c))))
    (local.set $a (f32x4.add (i8x16.shuffle 0 1 2 3 16 17 18 19 8 9 10 11 24 25 26 27 (local.get $d) (local.get $e)) (i8x16.shuffle 4 5 6 7 20 21 22 23 12 13 14 15 28 29 30 31 (local.get $d) (local.get $e))))
    (v128.store (i32.add (local.get $y) (i32.shl (i32.add (i32.mul (local.get $i) (local.get $dout)) (local.get $j)) (i32.const 2)))
     (f32x4.add (v128.load (i32.add (local.get $b) (i32.shl (local.get $j) (i32.const 2))))
      (f32x4.add (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $v) (local.get $a)) (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $v) (local.get $a)))))
    (br_if $J (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 4))) (local.get $dout))))
   (br_if $I (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))))
