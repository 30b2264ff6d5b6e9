-- | The first program of criterion's tutorial and what its reference shows, with only the import changed.
module CriterionFile (main) where

import Heddle.Measure

-- The function we're benchmarking.
fib :: Int -> Integer
fib m
  | m < 0 = error "negative!"
  | otherwise = go m
  where
    go 0 = 0
    go 1 = 1
    go n = go (n - 1) + go (n - 2)

setupEnv :: IO ([Int], [Int])
setupEnv = do
  let small = replicate 1000 (1 :: Int)
      big = [length [0 .. n] | n <- small]
  return (small, big)

-- Our benchmark harness.
main :: IO ()
main =
  defaultMain
    [ bgroup
        "fib"
        [ bench "1" $ whnf fib 1,
          bench "5" $ whnf fib 5,
          bench "9" $ whnf fib 9
        ],
      env setupEnv $ \ ~(small, big) ->
        bgroup
          "main"
          [ bgroup
              "small"
              [ bench "length" $ whnf length small,
                bench "length . filter" $ whnf (length . filter (== 1)) small
              ],
            bgroup
              "big"
              [ bench "length" $ nf length big,
                bench "read" $ nfIO (readFile "/proc/sys/kernel/ostype")
              ]
          ],
      bench "batch" $ perBatchEnv (\n -> return (replicate (fromIntegral n) 'x')) (return . length),
      bench "run" $ perRunEnvWithCleanup (return [1 :: Int, 2, 3]) (const (return ())) (return . reverse),
      envWithCleanup (return 'c') (const (return ())) $ \c -> bench "action" $ nfAppIO (return . succ) c,
      bench "whnfs" $ whnfAppIO (return . even) (3 :: Int),
      bench "io" $ whnfIO (return ())
    ]
