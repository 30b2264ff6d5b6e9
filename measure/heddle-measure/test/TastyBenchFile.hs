-- | The first program of tasty-bench's documentation and its comparison, with only the import changed.
module TastyBenchFile (main) where

import Heddle.Measure

fibo :: Int -> Integer
fibo n = if n < 2 then toInteger n else fibo (n - 1) + fibo (n - 2)

main :: IO ()
main =
  defaultMain
    [ bgroup
        "fibonacci numbers"
        [ bench "fifth" $ nf fibo 5,
          bench "tenth" $ nf fibo 10,
          bcompare "tenth" $ bench "twelfth" $ nf fibo 12
        ],
      bcompareWithin 0 1000 "fifth" $ bench "sixth" $ nf fibo 6
    ]
