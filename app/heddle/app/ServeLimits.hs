-- |
-- Module      : ServeLimits
-- Description : heddle serve's options for limits
module ServeLimits
  ( limitOptions,
  )
where

import Control.Monad (foldM)
import Data.List (intercalate)
import Heddle.Serve.Config
import Options.Applicative hiding (argument)
import ServeWords

-- | Sizes and time-outs.
limitOptions :: Parser (ServerConfig -> ServerConfig)
limitOptions =
  (\body top target times server -> server {serverMaxBody = body, serverMaxHead = top, serverMaxTarget = target, serverTimeOuts = foldl (\before change -> change before) (serverTimeOuts server) times})
    <$> setting "max-body" parseSize (metavar "SIZE" <> help "The longest body of a request, in bytes or with k, M or G (1,024, its square, its cube; default: 1G)")
    <*> setting "max-head" (parseSizeWithin 4096 1048576) (metavar "SIZE" <> help "The longest head of a request: its line and headers, cookies among them (4k to 1M, default: 16k). Each connection that has work takes that much memory")
    <*> setting "max-target" (parseSizeWithin 1024 1048576) (metavar "SIZE" <> help "The longest target of a request, its path and query, within --max-head (1k to 1M, default: 8000)")
    <*> many (option (eitherReader parseTimeOuts) (long "time-outs" <> metavar "NAME=SECONDS,..." <> help "head: for a request's head (default: 10); body, reply: before a body must come, and a reply be taken, at 240 bytes/s at least (10, 30); idle: as --idle"))

-- Names and seconds, separated by commas.
parseTimeOuts :: String -> Either String (TimeOutConfig -> TimeOutConfig)
parseTimeOuts = foldM one id . pieces
  where
    pieces text = case break (== ',') text of
      (piece, ',' : rest) -> piece : pieces rest
      (piece, _) -> [piece]
    one before text = case break (== '=') text of
      (name, '=' : given)
        | Just change <- lookup name names -> (\n -> change (Just n) . before) <$> argument seconds' given
        | otherwise -> Left ("'" ++ name ++ "' is not a time-out; there are " ++ intercalate ", " (map fst names))
      _ -> Left ("'" ++ text ++ "' has no = after the time-out's name; write NAME=SECONDS, such as head=5,reply=60")
    names :: [(String, Maybe (Written Int) -> TimeOutConfig -> TimeOutConfig)]
    names =
      [ ("head", \n times -> times {timeOutHead = n}),
        ("body", \n times -> times {timeOutBody = n}),
        ("reply", \n times -> times {timeOutReply = n}),
        ("idle", \n times -> times {timeOutIdle = n})
      ]
