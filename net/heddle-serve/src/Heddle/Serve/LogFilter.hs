{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.LogFilter
-- Description : Which requests the access log has lines for
-- Stability   : stable
--
-- By status, by path, and one of N that succeed.
--
-- Cost: nothing without a condition; patterns decode the path of each request.
-- Owner: values; a selection belongs to its capability.
module Heddle.Serve.LogFilter
  ( LogFilter (..),
    everyRequest,
    parseStatuses,
    parseSample,
    newSelection,
  )
where

import Data.Char (isDigit, toLower)
import Heddle.Http
import Heddle.Http.UriPath (decodeBothWays, pathRelative)
import Heddle.Prim.Atomic (newWords, readWord, writeWord)
import Heddle.Serve.Glob

-- | What is logged: all of it must hold.
data LogFilter = LogFilter
  { -- | Statuses from the first to the second; none for all statuses.
    filterOnly :: ![(Int, Int)],
    -- | Not requests for these paths.
    filterSkip :: ![Glob],
    -- | One of this many requests of a core whose status is below 400; those with an error are all logged.
    filterSample :: !Int
  }
  deriving stock (Eq, Show)

-- | No condition.
everyRequest :: LogFilter
everyRequest = LogFilter [] [] 1

-- | Statuses such as @404@ or @5xx@, separated by commas.
--
-- >>> parseStatuses "404,5xx"
-- Right [(404,404),(500,599)]
parseStatuses :: String -> Either String [(Int, Int)]
parseStatuses text = case break (== ',') text of
  (one, ',' : others) -> (:) <$> status one <*> parseStatuses others
  (one, _) -> (: []) <$> status one
  where
    status s = case map toLower s of
      [c, 'x', 'x'] | c >= '1', c <= '5', let n = 100 * digit c -> Right (n, n + 99)
      [a, b, c] | all isDigit [a, b, c], a >= '1', a <= '5', let n = 100 * digit a + 10 * digit b + digit c -> Right (n, n)
      _ -> Left ("'" ++ s ++ "' is neither a status such as 404 nor a class such as 5xx")
    digit c = fromEnum c - fromEnum '0'

-- | @1\/N@.
parseSample :: String -> Either String Int
parseSample = \case
  '1' : '/' : digits | not (null digits), all isDigit digits, length digits <= 9, n <- read digits, n >= 1 -> Right n
  other -> Left ("'" ++ other ++ "' is not a share such as 1/100")

-- | A capability's decision about a request; 'Nothing' if all are logged.
--
-- [Threads]: those of one capability.
newSelection :: LogFilter -> IO (Maybe (Request -> Logged -> Status -> IO Bool))
newSelection (LogFilter [] [] 1) = pure Nothing
newSelection (LogFilter only skip sample) = do
  counted <- newWords 1
  let within code = null only || any (\(from, to) -> code >= from && code <= to) only
      skipped request what
        | null skip = pure False
        | otherwise = case what of
          LoggedGarbage -> pure False
          LoggedRequest -> either (const False) (\(_, path) -> any (`matches` ("/" <> pathRelative path)) skip) . decodeBothWays <$> rawPath request
      chosen code
        | sample == 1 || code >= 400 = pure True
        | otherwise = do
          n <- readWord counted 0
          writeWord counted 0 (if n + 1 >= sample then 0 else n + 1)
          pure (n == 0)
  pure . Just $ \request what status ->
    let code = statusCode status
     in if within code then skipped request what >>= \no -> if no then pure False else chosen code else pure False
