{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Rendezvous.Sat.Dimacs
-- Description : DIMACS CNF, read and written
-- Stability   : example
--
-- Reads what the SAT competitions and SATLIB publish: comments anywhere, clauses over several lines or
-- several on one, and SATLIB's @%@ for the end.
module Rendezvous.Sat.Dimacs
  ( Dimacs (..),
    parseDimacs,
    renderDimacs,
    renderModel,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Builder (Builder, intDec, string7)
import Data.ByteString.Char8 qualified as C
import Data.Foldable qualified as Foldable
import Rendezvous.Input (Complaint (..), Result, decimal, quoted)

-- | Variables, and clauses of non-zero numbers no greater than them.
data Dimacs = Dimacs
  { dimacsVariables :: !Int,
    dimacsClauses :: ![[Int]]
  }
  deriving stock (Eq, Show)

-- Clauses, and the literals of the one that is not at its end, both the last first.
data Reading = Reading ![[Int]] ![Int]

-- | Read a whole file.
parseDimacs :: ByteString -> Result Dimacs
parseDimacs text = do
  let numbered = takeWhile ((/= ["%"]) . snd) [(n, ws) | (n, line) <- zip [1 ..] (C.lines text), let ws = C.words line, meant ws]
  case numbered of
    [] -> Left (Complaint Nothing "has no line 'p cnf VARIABLES CLAUSES'")
    (at, ["p", "cnf", v, c]) : rest -> do
      variables <- size at "variables" v
      clauses <- size at "clauses" c
      Reading done open <- Foldable.foldl' (\now line -> now >>= \r -> clauseLine variables r line) (Right (Reading [] [])) rest
      case open of
        [] -> pure ()
        _ -> Left (Complaint (Just (fst (last rest))) "the last clause has no 0 at its end")
      if length done == clauses
        then pure (Dimacs variables (reverse done))
        else Left (Complaint (Just at) ("promises " <> show clauses <> " clauses, but there are " <> show (length done)))
    (at, _) : _ -> Left (Complaint (Just at) "expected 'p cnf VARIABLES CLAUSES' before the first clause")
  where
    meant ws = case ws of
      [] -> False
      w : _ -> C.head w /= 'c'
    size at what word = case decimal word of
      Just n | n >= 0, n <= 10000000 -> Right n
      _ -> Left (Complaint (Just at) (quoted word <> " is not a number of " <> what <> " (0 to 10000000)"))

clauseLine :: Int -> Reading -> (Int, [ByteString]) -> Result Reading
clauseLine variables = \before (at, ws) -> case ws of
  "p" : _ -> Left (Complaint (Just at) "a second line 'p'")
  _ -> Foldable.foldl' (\now w -> now >>= \r -> literal at r w) (Right before) ws
  where
    literal at (Reading done open) word = case decimal word of
      Just 0 -> Right (Reading (reverse open : done) [])
      Just n
        | abs n <= variables -> Right (Reading done (n : open))
        | otherwise -> Left (Complaint (Just at) (show n <> " is beyond the last variable, " <> show variables))
      Nothing -> Left (Complaint (Just at) (quoted word <> " is not a literal"))

-- | Write a formula, after these comments.
renderDimacs :: [String] -> Dimacs -> Builder
renderDimacs comments (Dimacs variables clauses) =
  foldMap (\line -> "c " <> string7 line <> "\n") comments
    <> ("p cnf " <> intDec variables <> " " <> intDec (length clauses) <> "\n")
    <> foldMap (\clause -> foldMap (\n -> intDec n <> " ") clause <> "0\n") clauses

-- | The lines @v@ of a model.
renderModel :: [Int] -> [String]
renderModel model = go (map show model <> ["0"])
  where
    go [] = []
    go ws = let (now, later) = fill 1 ws in unwords ("v" : now) : go later
    -- No line is longer than 78 characters.
    fill :: Int -> [String] -> ([String], [String])
    fill width (w : ws) | width + 1 + length w <= 78 = let (now, later) = fill (width + 1 + length w) ws in (w : now, later)
    fill _ ws = ([], ws)
