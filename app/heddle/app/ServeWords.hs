-- |
-- Module      : ServeWords
-- Description : Options of heddle serve as parts of a configuration
--
-- What an option says is kept as it was written, like the values of a configuration's file.
module ServeWords
  ( setting,
    settings,
    word,
    yes,
    upTo,
    between,
    seconds',
    file,
  )
where

import Data.List (intercalate)
import Heddle.Serve.Config
import Options.Applicative hiding (argument)

-- | An option that may be given once.
setting :: String -> (String -> Either String a) -> Mod OptionFields (Written a) -> Parser (Maybe (Written a))
setting name reader more = optional (option (eitherReader (argument reader)) (long name <> more))

-- | An option that may be given more than once.
settings :: String -> (String -> Either String a) -> Mod OptionFields (Written a) -> Parser [Written a]
settings name reader more = many (option (eitherReader (argument reader)) (long name <> more))

-- | An option whose values are these words: what they are, and why another one is refused.
word :: String -> String -> [(String, a)] -> Mod OptionFields (Written a) -> Parser (Maybe (Written a))
word name what choices more = setting name reader (metavar (intercalate "|" names) <> completeWith names <> more)
  where
    names = map fst choices
    reader text = maybe (Left ("'" ++ text ++ "' is not " ++ what ++ "; there are " ++ listed names)) Right (lookup text choices)
    listed ns = case reverse ns of
      final : others@(_ : _) -> intercalate ", " (reverse others) ++ " and " ++ final
      _ -> concat ns

-- | An option without a value.
yes :: String -> String -> Parser (Maybe (Written Bool))
yes name text = optional (flag' (Written onCommandLine "yes" True) (long name <> help text))

-- | A number from 1 on, and what it is a number of.
upTo :: Int -> String -> String -> Either String Int
upTo = between 1

-- | A number within bounds.
between :: Int -> Int -> String -> String -> Either String Int
between least most what text = case reads text of
  [(n, "")] | n >= least && n <= most -> Right n
  _ -> Left ("'" ++ text ++ "' is not " ++ what ++ " (" ++ show least ++ " to " ++ show most ++ ")")

-- | A number of seconds.
seconds' :: String -> Either String Int
seconds' = upTo 1000000 "a number of seconds"

-- | A file's name.
file :: String -> Either String FilePath
file = Right
