module Main where

import System.Environment (getArgs)
import Trapezoid

main :: IO ()
main = do
  aStr : bStr : nStr : _ <- getArgs
  let [a, b] = map read [aStr, bStr]
      n = read nStr
      h = (b - a) / fromIntegral n
      integral = trapezoid f a b n h
  print integral
