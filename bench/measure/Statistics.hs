-- | heddle-measure's statistics for the harness, so that there is one implementation of them.
--
-- Reads lines @values NUMBER...@ and @ratios NUMBER...@: samples in the order in which they were taken. Answers each with the
-- estimate, the bounds of its 95 % interval, the median, the least and the greatest. Ratios are treated by their logarithms.
-- One process serves a whole run; between questions it waits.
module Main
  ( main,
  )
where

import Heddle.Measure.Statistics
import System.Exit (die)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Text.Read (readMaybe)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  getContents >>= mapM_ answer . lines
  where
    answer line = case words line of
      kind : numbers
        | Just interval <- lookup kind kinds,
          Just values@(_ : _) <- mapM readMaybe numbers ->
          case interval (sampleFromList values) of
            Just found -> putStrLn (unwords (map show (summary found (sampleFromList values))))
            Nothing -> die ("too small to compare: " ++ line)
      _ -> die ("neither values nor ratios, or not numbers: " ++ line)
    kinds = [("values", Just . midmeanInterval seed), ("ratios", \sample -> ratioInterval seed sample (sampleFromList (1 <$ sampleToList sample)))]
    seed = Seed 1

summary :: Interval -> Sample -> [Double]
summary found sample = [estimate found, lower found, upper found, median sample, quantile 0 sample, quantile 1 sample]
