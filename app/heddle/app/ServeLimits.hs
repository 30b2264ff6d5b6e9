-- |
-- Module      : ServeLimits
-- Description : heddle serve's options for limits
module ServeLimits
  ( limitOptions,
    parseSize,
    parseTimeOuts,
  )
where

import Control.Monad (foldM)
import Data.Char (isDigit, toLower)
import Data.List (intercalate)
import Heddle.Http (Limits (..), Pace (..), Settings (..))
import Heddle.Prim.Clock (Nanos (..), seconds)
import Options.Applicative

-- | What the options change.
limitOptions :: Parser (Settings -> Settings)
limitOptions =
  (.)
    <$> (maybe id bodyOf <$> optional (option (eitherReader parseSize) (long "max-body" <> metavar "SIZE" <> help "The longest body of a request, in bytes or with k, M or G (1,024, its square, its cube; default: 1G)")))
    <*> (foldr (.) id <$> many (option (eitherReader parseTimeOuts) (long "time-outs" <> metavar "NAME=SECONDS,..." <> help "head: for a request's head (default: 10); body, reply: before a body must come, and a reply be taken, at 240 bytes/s at least (10, 30); idle: as --idle")))
  where
    bodyOf n settings = settings {settingLimits = (settingLimits settings) {limitBody = n}}

-- | A number of bytes.
parseSize :: String -> Either String Int
parseSize text = case span isDigit text of
  (digits, unit)
    | not (null digits) && length digits <= 15,
      Just factor <- lookup (map toLower unit) [("", 1), ("k", 1024), ("m", 1048576), ("g", 1073741824)],
      let n = read digits :: Integer,
      n >= 1 && n * factor <= 1152921504606846976 ->
      Right (fromIntegral (n * factor))
  _ -> Left ("'" ++ text ++ "' is not a size such as 100000, 64k, 10M or 1G")

-- | Names and seconds, separated by commas.
parseTimeOuts :: String -> Either String (Settings -> Settings)
parseTimeOuts = foldM one id . pieces
  where
    pieces text = case break (== ',') text of
      (piece, ',' : rest) -> piece : pieces rest
      (piece, _) -> [piece]
    one before text = case break (== '=') text of
      (name, '=' : given)
        | Just change <- lookup name names -> case reads given of
          [(n, "")] | n >= 1 && n <= (1000000 :: Int) -> Right (change (seconds n) . before)
          _ -> Left ("'" ++ given ++ "' is not a number of seconds (1 to 1000000)")
        | otherwise -> Left ("'" ++ name ++ "' is not a time-out; there are " ++ intercalate ", " (map fst names))
      _ -> Left ("'" ++ text ++ "' has no = after the time-out's name; write NAME=SECONDS, such as head=5,reply=60")
    names :: [(String, Nanos -> Settings -> Settings)]
    names =
      [ ("head", \n settings -> settings {settingHead = n}),
        ("body", \n settings -> settings {settingBodyPace = (settingBodyPace settings) {paceGrace = n}}),
        ("reply", \n settings -> settings {settingReplyPace = (settingReplyPace settings) {paceGrace = n}}),
        ("idle", \n settings -> settings {settingIdle = n})
      ]
