-- | Chains in Heddle.Flow, and as loops by hand.
--
-- @flow@ and @hand@: the sum of what comes out of a chain: the numbers to N times three, the odd ones of
-- them, added to all before, each with the two numbers after it, so many as N. @FusedPeers.hs@ has the same.
--
-- The others end in a name: @four@ is that chain without the loop in the loop, @actions@ are four actions
-- in a row, @zip@ multiplies two streams, @scan@ sums running sums, and @both@ folds one stream twice.
module Main
  ( main,
  )
where

import Heddle.Flow (run, (|>))
import Heddle.Flow qualified as Flow
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ ("flow", flow),
      ("hand", hand),
      ("flow-four", flowFour),
      ("hand-four", handFour),
      ("flow-actions", flowActions),
      ("hand-actions", handActions),
      ("flow-zip", flowZip),
      ("hand-zip", handZip),
      ("flow-scan", flowScan),
      ("hand-scan", handScan),
      ("flow-both", flowBoth),
      ("hand-both", handBoth)
    ]

flow :: Int -> IO Int
flow n =
  Flow.range 1 n
    |> Flow.map (* 3)
    |> Flow.filter odd
    |> Flow.postscan (+) 0
    |> Flow.concatMap (`Flow.countFrom` 3)
    |> Flow.take n
    `run` Flow.sum

hand :: Int -> IO Int
hand n = numbers 1 0 n 0
  where
    numbers :: Int -> Int -> Int -> Int -> IO Int
    numbers !k !before !left !found
      | k > n = pure found
      | odd (k * 3) = let x = before + k * 3 in copies x (x + 2) k x left found
      | otherwise = numbers (k + 1) before left found
    copies :: Int -> Int -> Int -> Int -> Int -> Int -> IO Int
    copies !x !end !k !before !left !found
      | x > end = numbers (k + 1) before left found
      | left == 1 = pure (found + x)
      | otherwise = copies (x + 1) end k before (left - 1) (found + x)

flowFour :: Int -> IO Int
flowFour n =
  Flow.range 1 n
    |> Flow.map (* 3)
    |> Flow.filter odd
    |> Flow.postscan (+) 0
    |> Flow.take n
    `run` Flow.sum

handFour :: Int -> IO Int
handFour n = go 1 0 n 0
  where
    go :: Int -> Int -> Int -> Int -> IO Int
    go !k !before !left !found
      | k > n = pure found
      | odd (k * 3) = let x = before + k * 3 in if left == 1 then pure (found + x) else go (k + 1) x (left - 1) (found + x)
      | otherwise = go (k + 1) before left found

flowActions :: Int -> IO Int
flowActions n = Flow.range 1 n |> Flow.mapM up |> Flow.mapM up |> Flow.mapM up |> Flow.mapM up `run` Flow.sum

handActions :: Int -> IO Int
handActions n = go 1 0
  where
    go :: Int -> Int -> IO Int
    go !k !found
      | k > n = pure found
      | otherwise = up k >>= up >>= up >>= up >>= \x -> go (k + 1) (found + x)

up :: Int -> IO Int
up x = pure (x + 1)

flowZip :: Int -> IO Int
flowZip n = Flow.range 1 n |> Flow.zipUnfold (*) (\i -> if i > n then Nothing else Just (i, i + 1)) 1 `run` Flow.sum

handZip :: Int -> IO Int
handZip n = go 1 1 0
  where
    go :: Int -> Int -> Int -> IO Int
    go !k !i !found
      | k > n || i > n = pure found
      | otherwise = go (k + 1) (i + 1) (found + k * i)

flowScan :: Int -> IO Int
flowScan n = Flow.range 1 n |> Flow.postscan (+) 0 `run` Flow.sum

handScan :: Int -> IO Int
handScan n = go 1 0 0
  where
    go :: Int -> Int -> Int -> IO Int
    go !k !before !found
      | k > n = pure found
      | otherwise = go (k + 1) (before + k) (found + before + k)

flowBoth :: Int -> IO Int
flowBoth n = uncurry (+) <$> (Flow.range 1 n |> Flow.filter odd `run` Flow.both Flow.sum Flow.length)

handBoth :: Int -> IO Int
handBoth n = go 1 0 0
  where
    go :: Int -> Int -> Int -> IO Int
    go !k !total !count
      | k > n = pure (total + count)
      | odd k = go (k + 1) (total + k) (count + 1)
      | otherwise = go (k + 1) total count
